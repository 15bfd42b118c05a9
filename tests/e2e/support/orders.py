"""A database of orders that is worth reading ahead in."""
import sqlite3

ROWS, CUSTOMERS, SHOPS = 60_000, 1_000, 300


def make(path):
    """Rows come in an order in which neighbours are inserted long after one another, so that the leaves of the table lie scattered, which the
    kernel's read-ahead does not help; rows of a customer lie far from one another."""
    db = sqlite3.connect(path)
    db.executescript("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                     "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, shop INTEGER);"
                     "CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT);")
    db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)",
                   ((i + 1, i * 7919 % CUSTOMERS, f"item {i} " + "x" * (60 + i % 40), i * 6007 % SHOPS) for i in (n * 7919 % ROWS for n in range(ROWS))))
    db.executemany("INSERT INTO customers VALUES (?, ?)", ((i, f"customer {i} " + "y" * 400) for i in range(CUSTOMERS)))
    db.execute("CREATE INDEX orders_by_customer ON orders(customer)")
    db.execute("CREATE INDEX orders_by_shop ON orders(shop)")
    db.commit()
    roots = dict(db.execute("SELECT name, rootpage FROM sqlite_schema"))
    db.close()
    return roots
