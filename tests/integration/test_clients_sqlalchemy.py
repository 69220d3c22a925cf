"""SQLAlchemy Core, ORM and reflection, over PyMySQL and mysql-connector-python."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

pytestmark = pytest.mark.long


@pytest.fixture(params=["pymysql", "mysqlconnector"])
def engine(gate, request):
    url = f"mysql+{request.param}://root@127.0.0.1:{gate.port}/{gate.database}?charset=utf8mb4"
    made = sa.create_engine(url)
    yield made
    made.dispose()


def test_core_round_trip(engine, name):
    metadata = sa.MetaData()
    table = sa.Table(
        name, metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("label", sa.String(50), nullable=False, unique=True),
        sa.Column("amount", sa.Numeric(12, 2)),
        sa.Column("at", sa.DateTime),
        sa.Column("active", sa.Boolean, default=True),
        sa.Column("data", sa.LargeBinary),
        sa.Column("note", sa.Text),
    )  # fmt: skip
    metadata.create_all(engine)
    metadata.create_all(engine)  # looks whether it is there
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)
    with engine.begin() as connection:
        result = connection.execute(table.insert().values(label="a", amount=Decimal("1.50"), at=at, data=b"\x00\xff"))
        assert result.inserted_primary_key == (1,)
        connection.execute(table.insert(), [{"label": "b", "amount": 2}, {"label": "c", "amount": 3}])
    with engine.connect() as connection:
        row = connection.execute(sa.select(table).where(table.c.label == "a")).one()
        assert (row.amount, row.at, row.active, row.data) == (Decimal("1.50"), at, True, b"\x00\xff")
        assert connection.scalar(sa.select(sa.func.sum(table.c.amount))) == Decimal("6.50")
        total = connection.execute(table.update().where(table.c.amount > 1.6).values(note="big")).rowcount
        assert total == 2
        connection.rollback()
        assert connection.scalar(sa.select(sa.func.count()).where(table.c.note == "big")) == 0
        paged = connection.scalars(sa.select(table.c.label).order_by(table.c.label.desc()).limit(2).offset(1)).all()
        assert paged == ["b", "a"]
        assert connection.scalars(sa.select(table.c.label).where(table.c.label.in_(["a", "c"]))).all() == ["a", "c"]
    with engine.begin() as connection, pytest.raises(sa.exc.IntegrityError):
        connection.execute(table.insert().values(label="a"))
    metadata.drop_all(engine)


def test_orm(engine, name):
    class Base(orm.DeclarativeBase):
        pass

    class Customer(Base):
        __tablename__ = f"{name}_c"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        full_name: orm.Mapped[str] = orm.mapped_column(sa.String(40))
        orders: orm.Mapped[list[Order]] = orm.relationship(back_populates="customer", cascade="all, delete-orphan")

    class Order(Base):
        __tablename__ = f"{name}_o"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        customer_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(f"{name}_c.id"))
        total: orm.Mapped[Decimal] = orm.mapped_column(sa.Numeric(10, 2))
        customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")

    globals()["Order"] = Order  # annotations are strings here; the mapper looks them up in the module
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Customer(full_name="Ann", orders=[Order(total=Decimal("9.99")), Order(total=Decimal("0.01"))]))
        session.commit()
    with orm.Session(engine) as session:
        ann = session.scalars(sa.select(Customer).options(orm.selectinload(Customer.orders))).one()
        assert [order.total for order in ann.orders] == [Decimal("9.99"), Decimal("0.01")]
        joined = session.execute(
            sa.select(Customer.full_name, sa.func.count()).join(Order).group_by(Customer.full_name)
        ).all()
        assert joined == [("Ann", 2)]
        ann.full_name = "Anna"
        with session.begin_nested() as savepoint:
            session.delete(ann.orders[0])
            session.flush()
            savepoint.rollback()
        session.commit()
    with orm.Session(engine) as session:
        anna = session.scalars(sa.select(Customer)).one()
        assert (anna.full_name, len(anna.orders)) == ("Anna", 2)
        session.delete(anna)
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 0
    Base.metadata.drop_all(engine)


def test_reflection(engine, sql, name):
    sql(f"CREATE TABLE {name}_p (id INT AUTO_INCREMENT PRIMARY KEY, code VARCHAR(10) NOT NULL, UNIQUE KEY code (code))")
    sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, p INT,"
        f" s VARCHAR(80) NOT NULL DEFAULT 'x', d DECIMAL(8,3), t DATETIME,"
        f" KEY by_s (s, d), CONSTRAINT to_p FOREIGN KEY (p) REFERENCES {name}_p (id))"
    )
    inspector = sa.inspect(engine)
    assert {name, f"{name}_p"} <= set(inspector.get_table_names())
    assert inspector.has_table(name)
    assert not inspector.has_table(f"{name}_missing")
    columns = {column["name"]: column for column in inspector.get_columns(name)}
    assert list(columns) == ["id", "p", "s", "d", "t"]
    assert isinstance(columns["id"]["type"], sa.BigInteger)
    assert (columns["s"]["type"].length, columns["s"]["nullable"]) == (80, False)
    assert (columns["d"]["type"].precision, columns["d"]["type"].scale) == (8, 3)
    assert inspector.get_pk_constraint(name)["constrained_columns"] == ["id"]
    assert {index["name"]: index["column_names"] for index in inspector.get_indexes(name)}["by_s"] == ["s", "d"]
    foreign = inspector.get_foreign_keys(name)
    assert [(f["constrained_columns"], f["referred_table"], f["referred_columns"]) for f in foreign] == [
        (["p"], f"{name}_p", ["id"])
    ]
    assert [u["column_names"] for u in inspector.get_unique_constraints(f"{name}_p")] == [["code"]]
    metadata = sa.MetaData()
    reflected = sa.Table(name, metadata, autoload_with=engine)
    assert f"{name}_p" in metadata.tables
    with engine.begin() as connection:
        connection.execute(reflected.insert().values(s="reflected", d=Decimal("1.5")))
        assert connection.execute(sa.select(reflected.c.s, reflected.c.d)).all() == [("reflected", Decimal("1.500"))]
    sql(f"DROP TABLE {name}")
    sql(f"DROP TABLE {name}_p")


def test_a_queue_reflects_as_the_table_it_is(engine, queue, sql):
    q = queue("user_id BIGINT, payload VARCHAR(256) NOT NULL")
    table = sa.Table(q, sa.MetaData(), autoload_with=engine)
    names = ["id", "priority", "time_scheduled", "time_next", "epoch", "time_created", "time_acked", "state"]
    names += ["first_error", "last_error", "failed_attempts", "lease_token"]
    assert list(table.c.keys()) == [*names, "user_id", "payload"]
    with engine.begin() as connection:
        result = connection.execute(table.insert().values(user_id=7, payload="from SQLAlchemy"))
        assert result.inserted_primary_key == (1,)
    with engine.connect() as connection:
        rows = connection.execute(sa.text(f"SELECT id, user_id, payload FROM STREAM {q} LIMIT 1 WAIT 10")).all()
        assert rows == [(1, 7, "from SQLAlchemy")]
        connection.commit()
        assert connection.execute(sa.text(f"ACK {q} :id"), {"id": 1}).rowcount == 1
        connection.commit()
    assert sql.value(f"SELECT state FROM {q}") == "acked"


def test_business_row_and_message_in_one_session(engine, queue, sql, name, stream):
    q = queue("order_id INT")
    receiver = stream(f"SELECT order_id FROM STREAM {q}")
    metadata = sa.MetaData()
    orders = sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("sum", sa.Integer))
    metadata.create_all(engine)
    message = sa.table(q, sa.column("order_id"))
    with engine.connect() as connection:
        connection.execute(orders.insert().values(sum=1))
        connection.execute(message.insert().values(order_id=1))
        connection.rollback()
        key = connection.execute(orders.insert().values(sum=2)).inserted_primary_key[0]
        connection.execute(message.insert().values(order_id=key))
        connection.commit()
    assert receiver.wait(1) == [(key,)]
    assert len(receiver.rows) == 1
    assert sql.column(f"SELECT sum FROM {name}") == [2]
    metadata.drop_all(engine)


@pytest.mark.parametrize("engine", ["pymysql"], indirect=True)
def test_a_stream_gives_each_row_as_it_comes(engine, queue, sql):
    """With `stream_results` alone a row waits until more have come."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (0)")
    with engine.connect().execution_options(yield_per=1) as connection:
        for expected, row in zip(
            range(5), connection.execute(sa.text(f"SELECT n FROM STREAM {q} WAIT 20")), strict=False
        ):
            assert row == (expected,)
            sql(f"INSERT INTO {q} (n) VALUES ({expected + 1})")
        connection.invalidate()
