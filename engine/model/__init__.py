"""The engine's data types, as frozen values. The only part of the engine that the package rewriter may import.

`queue` has queues, messages, requests and reports; `options` the options of a queue and the COMMENT that stores them;
`backoff` how long a message waits for its next delivery; `states` what a row's columns mean; `identity` the kinds of
ids; `filter_limits` how many conditions streams may have; `errors` every error with its MySQL number, and `sqlstates`
the SQLSTATE of each number.
"""
