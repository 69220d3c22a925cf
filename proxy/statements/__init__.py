"""Plans carried out: a module for each kind of plan.

`reader` and `planning` turn a statement into a plan by the package rewriter, and `executor` runs it: on the client's
own connection and in its transaction, or by the engine. `receive` and `streaming` are SELECT ... FROM STREAM,
`event_groups` the statements on queues with groups, `kill` is KILL. A commit is reported to the engine and the
other proxies.
"""
