"""One queue in memory, from a commit to the receiver's batch.

`message_manager` owns the queue: a `poller` polls the table and fills the `cache`, the `sender` leases messages and
hands them to the `subscription`s, each as many as its `receiver_window` has room for, `in_flight` has the leases that
are not settled. `receivers` is a set of receivers with the same condition, `receiver_sets` are all of a queue;
`filtered_poller` polls for those with a WHERE, within the bounds of `filter_shares`.

The state in memory is a guess: the claim in the table decides.
"""
