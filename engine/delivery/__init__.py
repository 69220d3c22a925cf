"""One queue in memory, from a commit to the receiver's batch.

`message_manager` owns the queue, with one task that makes `passes`. It has the `queue_leases`, those that are in flight
and what becomes of them; the `receiver_sets`, all receivers by their conditions; and `commits`, what a commit does to
both. `receivers` is one such set: its `known_messages` has the `cache` and the `poller` that fills it
(`filtered_poller` for those with a WHERE, within the bounds of `filter_shares`), `waiting_receivers` has the order of
their turns, and the `sender` leases messages and hands them to the `subscription`s, whose
consumers wait for their `next_batch`.

The state in memory is a guess: the claim in the table decides.
"""
