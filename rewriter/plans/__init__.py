"""Plans: nodes and the catalog in, SQL in the table's terms out.

`plan_statement` takes a node and the queue it names; a module for each kind of statement makes its plan. `queue_table`
writes the table of a queue, `condition` makes a stream's WHERE safe. The plans themselves are in rewriter.plan.
"""
