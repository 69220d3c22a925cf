"""MySQL's lexis: bytes, tokens, literals, names.

`lexis` and `tokens` take texts apart, `long_text` does so within bounds for long ones. `literals` and `queue_names` put
values and names into SQL, quoted. `binding` puts a value in the place of a `?`. `strict_reader` reads what a right
depends on: what servers might read differently it does not read.
"""
