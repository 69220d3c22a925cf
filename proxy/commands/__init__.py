"""One client's command loop, from COM_QUERY to COM_QUIT.

`connection` reads a command, decides which component answers it, and goes on with the next one; `fast_commands` decides
which ones need not come by there. `text_commands` are those with a text, `statement_commands` those on prepared
statements: `prepared` holds the ones that the proxy itself answers, `upstream_statements` knows the effects of those of
the database. What a statement means is decided in the package rewriter, and it is carried out in proxy.statements.
"""
