"""One queue in memory, from a commit to the receiver's batch.

`message_manager` owns the queue: a `poller` looks at the table and fills the `cache`, the `sender` leases messages
and hands them to the `subscription`s, each as many as its `receiver_window` has room for, `in_flight` remembers what
is out. `receivers` ask for the same messages, `receiver_sets` are all of a queue; `filtered_poller` serves those with
a WHERE, within the bounds of `filter_shares`.

What is in memory is a guess: the claim in the table decides.
"""
