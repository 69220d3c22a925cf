"""What runs beside delivery: each a service of its own, for one queue or for all.

`purger` deletes acked messages, `dead_letter_mover` moves rejected ones, `group_scan` finds groups that are done.
`surveyor` counts for those who look, `watchdog` notices deliveries that stand still.
"""
