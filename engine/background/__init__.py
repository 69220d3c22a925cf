"""Background services alongside delivery, each for one queue or for all.

`purger` deletes acked messages, `dead_letter_mover` moves rejected ones, `group_scan` finds groups that are done.
`surveyor` counts the messages of queues on request, `watchdog` detects stalled deliveries.
"""
