"""SQLAlchemy's asynchronous engine over asyncmy and aiomysql, beside the same at the server itself; its pools."""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from slowness import scaled
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from transcripts import Address, address_of

# Aiomysql hands on the server's warnings.
pytestmark = [pytest.mark.filterwarnings("ignore:Unknown table"), pytest.mark.long]
TIMEOUT = 100


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sqla_author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(80), unique=True)
    born: orm.Mapped[datetime.date | None]
    books: orm.Mapped[list[Book]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "sqla_book"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("sqla_author.id", ondelete="CASCADE"))
    title: orm.Mapped[str] = orm.mapped_column(sa.Text)
    price: orm.Mapped[Decimal] = orm.mapped_column(sa.Numeric(10, 2))
    sold: orm.Mapped[bool] = orm.mapped_column(default=False)
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


def url(driver: str, address: Address) -> str:
    return f"mysql+{driver}://{address.user}@{address.host}:{address.port}/{address.database}?charset=utf8mb4"


@pytest.mark.parametrize("driver", ["asyncmy", "aiomysql"])
async def test_the_orm_is_as_without_the_proxy(mariadb, gate, driver):
    async with asyncio.timeout(scaled(TIMEOUT)):
        direct = await library(driver, address_of(mariadb))
        assert len(direct) == 7
        assert await library(driver, address_of(gate)) == direct


async def library(driver: str, address: Address) -> list[object]:
    """Rows made, related, changed, counted and removed, with what is seen on the way."""
    engine = create_async_engine(url(driver, address), pool_size=2, pool_pre_ping=True)
    seen: list[object] = []
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
        await connection.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine, expire_on_commit=False) as session:
        for name in ("Ada", "Bo", "Çelik"):
            books = [Book(title=f"{name} {n} 🎉", price=Decimal(n) / 3) for n in range(1, 4)]
            session.add(Author(name=name, born=datetime.date(1990, 1, 2), books=books))
        await session.commit()
    async with AsyncSession(engine) as session:
        query = sa.select(Author).options(orm.selectinload(Author.books)).order_by(Author.name)
        authors = (await session.scalars(query)).all()
        seen.append([(a.name, a.born, [(b.title, b.price, b.sold) for b in a.books]) for a in authors])
        authors[0].books[0].sold = True
        nested = await session.begin_nested()
        session.add(Author(name="Bo"))
        with pytest.raises(sa.exc.IntegrityError) as refused:
            await session.flush()
        seen.append(refused.value.orig.args[0])
        await nested.rollback()
        await session.commit()
        sums = sa.select(Author.name, sa.func.count(), sa.func.sum(Book.price)).join(Book).group_by(Author.name)
        seen.append([tuple(values) for values in await session.execute(sums.order_by(Author.name))])
        locked = sa.select(Book.id).where(Book.sold.is_(True)).with_for_update()
        seen.append(len((await session.scalars(locked)).all()))
        changed = await session.execute(sa.update(Book).where(Book.price > 0.5).values(price=Book.price * 2))
        seen.append(changed.rowcount)
        await session.rollback()
        stream = await session.stream(sa.select(Book.title).order_by(Book.title))
        seen.append([title async for (title,) in stream])
        await session.delete(await session.get_one(Author, 1))
        await session.commit()
        seen.append(await session.scalar(sa.select(sa.func.count()).select_from(Book)))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
    await engine.dispose()
    return seen


@pytest.mark.parametrize("driver", ["pymysql", "mysqlconnector"])
def test_the_pool_notices_a_connection_that_is_gone(gate, sql, driver):
    engine = sa.create_engine(url(driver, address_of(gate)), pool_size=1, max_overflow=0, pool_pre_ping=True)
    with engine.connect() as connection:
        first = connection.scalar(sa.text("SELECT CONNECTION_ID()"))
    sql(f"KILL {first}")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT CONNECTION_ID()")) != first
    engine.dispose()


def test_isolation_levels_of_engine_and_connection(gate):
    engine = sa.create_engine(url("pymysql", address_of(gate)), isolation_level="READ COMMITTED", pool_size=1)
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.scalar(sa.text("SELECT @@autocommit")) == 1
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
    engine.dispose()


async def test_a_queue_beside_the_orm(gate, queue):
    q = queue("author INT")
    engine = create_async_engine(url("asyncmy", address_of(gate)))
    message = sa.table(q, sa.column("author"))
    async with asyncio.timeout(scaled(TIMEOUT)), engine.connect() as connection:
        await connection.execute(message.insert().values(author=1))
        await connection.rollback()
        await connection.execute(message.insert(), [{"author": 2}, {"author": 3}])
        await connection.commit()
        received = await connection.execute(sa.text(f"SELECT id, author FROM STREAM {q} LIMIT :n WAIT 10"), {"n": 2})
        messages = received.all()
        assert [author for _, author in messages] == [2, 3]
        acked = await connection.execute(sa.text(f"ACK {q} :id"), {"id": messages[0].id})
        assert acked.rowcount == 1
        await connection.commit()
        states = await connection.execute(sa.text(f"SELECT state, COUNT(*) FROM {q} GROUP BY state ORDER BY state"))
        assert states.all() == [("acked", 1), ("fired", 1)]
    await engine.dispose()
