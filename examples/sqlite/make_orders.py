#!/usr/bin/env python3
"""make_orders.py FILE [ROWS] [scattered]: a database of orders. The table's root is page 2 and its index's page 3, as app.chain says.

With `scattered` there are many customers and longer rows, so that the rows of a customer lie far from one another."""
import sqlite3
import sys

if len(sys.argv) < 2:
    sys.exit(__doc__)
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 60
scattered = sys.argv[3:] == ["scattered"]
customers, filler = (20000, "." * 70) if scattered else (10, "")
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("PRAGMA page_size = 4096")
    db.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT)")
    db.execute("CREATE INDEX orders_by_customer ON orders(customer)")
    step = 7919 if scattered else 7
    db.executemany("INSERT INTO orders VALUES (?, ?, ?)", ((i, i * step % customers, f"item number {i}{filler}") for i in range(1, rows + 1)))
db.close()
