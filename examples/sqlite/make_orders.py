#!/usr/bin/env python3
"""make_orders.py FILE [ROWS]: a database of orders. The table's root is page 2 and its index's page 3, as app.chain says."""
import sqlite3
import sys

rows = int(sys.argv[2]) if len(sys.argv) > 2 else 60
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("PRAGMA page_size = 4096")
    db.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT)")
    db.execute("CREATE INDEX orders_by_customer ON orders(customer)")
    db.executemany("INSERT INTO orders VALUES (?, ?, ?)", ((i, i * 7 % 10, f"item number {i}") for i in range(1, rows + 1)))
db.close()
