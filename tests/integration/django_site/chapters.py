"""What the project does with its database, and what it sees, line by line.

All but `queue` build on one another: migrate, crud, queries, transactions, introspection, flush, zero.
"""

from __future__ import annotations

import datetime
import io
from decimal import Decimal

from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import Avg, Case, CharField, Count, Exists, F, OuterRef, Q, Subquery, Sum, Value, When, Window
from django.db.models.functions import Cast, Coalesce, Concat, Length, Lower, Rank, TruncMonth, Upper
from shop.models import Label, Line, Order, Product

PLACED = datetime.datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=datetime.UTC)
QUEUE = "django_queue"


def say(line: object) -> None:
    print(line)


def command(name: str, *arguments: object, **options: object) -> None:
    output = io.StringIO()
    call_command(name, *arguments, stdout=output, no_color=True, **options)
    print(output.getvalue().rstrip())


def migrate() -> None:
    """Step by step, there and back and there again, with rows in the tables."""
    command("migrate", "shop", "0001")
    with connection.cursor() as cursor:  # the models are those of the last step
        cursor.execute(
            "INSERT INTO shop_product (code, name, price, stock, details, active, number)"
            " VALUES ('first', 'Ärmel', 2.5, 3, '{}', 1, '00000000000000000000000000000001')"
        )
    command("migrate", "shop", "0002")
    say(list(Product.objects.order_by("code").values_list("code", "name", "price", "stock", "maker")))
    command("migrate", "shop", "0001")
    command("migrate")
    command("makemigrations", "--check", "--dry-run")
    command("check", database=["default"])
    say(list(Product.objects.order_by("code").values_list("code", "maker")))
    Product.objects.all().delete()


def crud() -> None:
    made = Product.objects.create(
        code="a-1", name="Größe 🎉 O'Brien \\ % _", price=Decimal("12.30"), weight=1.5, details={"a": [1, None, "ä"]},
        picture=bytes(range(256)),
    )  # fmt: skip
    Product.objects.bulk_create(Product(code=f"b-{n}", name=f"name {n}", price=n, stock=n * n) for n in range(30))
    again = Product.objects.get(pk=made.pk)
    say((again.name, again.price, again.weight, again.details, bytes(again.picture) == bytes(range(256)), again.active))
    say(again.number == made.number)
    order = Order.objects.create(
        customer="Ann", placed=PLACED, due=datetime.date(2026, 12, 31), slot=datetime.time(1, 2, 3, 4),
        span=datetime.timedelta(days=2, microseconds=5), note="x" * 70_000,
    )  # fmt: skip
    order.refresh_from_db()
    say((order.placed, order.due, order.slot, order.span, len(order.note)))
    for number, product in enumerate(Product.objects.order_by("code")[:4]):
        Line.objects.create(order=order, product=product, quantity=number)
    say(Product.objects.get_or_create(code="a-1", defaults={"price": 1})[1])
    say(Product.objects.update_or_create(code="new", defaults={"name": "n", "price": 1})[1])
    say(Product.objects.bulk_create(
        [Product(code="new", name="again", price=3)], update_conflicts=True, update_fields=["name"]
    )[0].code)  # fmt: skip
    say(Product.objects.get(code="new").name)
    changed = list(Product.objects.filter(stock__gt=400))
    for product in changed:
        product.stock -= 1
    say(Product.objects.bulk_update(changed, ["stock"], batch_size=4))
    say(Product.objects.filter(code__startswith="b-").update(stock=F("stock") + 1, name=Upper("name")))
    say(Product.objects.filter(code="new").delete())
    label = Label.objects.create(word="red")
    label.products.set(Product.objects.filter(code__in=["a-1", "b-1", "b-2"]))
    label.products.remove(Product.objects.get(code="b-2"))
    say(sorted(product.code for product in label.products.all()))
    group = Group.objects.create(name="staff")
    user = User.objects.create_user("ann", "ann@example.org", "secret", first_name="Ann")
    user.groups.add(group)
    say((user.check_password("secret"), User.objects.filter(groups__name="staff").count()))
    store = SessionStore()
    store["basket"] = [1, "ä"]
    store.create()
    say(SessionStore(store.session_key)["basket"])


def queries() -> None:
    products, lines = Product.objects, Line.objects
    say(products.filter(Q(code="a-1") | Q(stock__range=(1, 10)), ~Q(name="x")).count())
    say(list(products.filter(name__icontains="NAME 1").order_by("-code").values_list("code", flat=True)[2:5]))
    say(list(products.filter(code__regex=r"^b-2[0-3]$").order_by("code").values_list("code", flat=True)))
    say(products.aggregate(Sum("stock"), Avg("price"), most=Count("pk", distinct=True)))
    say(list(lines.values("order__customer").annotate(n=Count("*"), sum=Sum(F("quantity") * F("product__price")))))
    ordered = Exists(lines.filter(product=OuterRef("pk"), quantity__gt=0))
    say(list(products.filter(ordered).order_by("code").values_list("code", flat=True)))
    latest = Subquery(lines.filter(product=OuterRef("pk")).order_by("-pk").values("quantity")[:1])
    say(
        list(
            products.annotate(latest=Coalesce(latest, -1)).order_by("-latest", "code").values_list("code", "latest")[:5]
        )
    )
    ranks = products.annotate(rank=Window(Rank(), order_by=F("price").desc())).order_by("rank", "code")
    say(list(ranks.values_list("code", "rank")[:4]))
    size = Case(When(stock__gt=100, then=Value("many")), default=Value("few"))
    say(list(products.annotate(size=size).values("size").annotate(n=Count("*")).order_by("size")))
    label = Concat(Lower("code"), Value(":"), Cast(Length("name"), CharField()))
    say(list(products.annotate(label=label).order_by("code").values_list("label")[:3]))
    months = Order.objects.annotate(month=TruncMonth("placed")).values("month").annotate(n=Count("*"))
    say(list(months))
    say(
        list(
            Order.objects.filter(placed__year=2026, placed__date=PLACED.date(), placed__hour=5).values_list("customer")
        )
    )
    say(list(Order.objects.dates("due", "year")))
    say([order.lines.all()[0].product.code for order in Order.objects.prefetch_related("lines__product")])
    say(list(lines.select_related("order", "product").filter(order__customer="Ann").values_list("product__code")[:2]))
    few, many = products.filter(stock__lt=5).values("code"), products.filter(stock__gt=700).values("code")
    say(sorted(row["code"] for row in few.union(many)))
    say([product.code for product in products.raw("SELECT id, code FROM shop_product WHERE code = %s", ["a-1"])])
    say(sum(1 for _ in products.iterator(chunk_size=7)))


def transactions() -> None:
    start = Product.objects.count()
    try:
        with transaction.atomic():
            Product.objects.create(code="undone", name="", price=1)
            raise RuntimeError
    except RuntimeError:
        say(Product.objects.count() - start)
    with transaction.atomic():
        Product.objects.create(code="kept", name="", price=1)
        for mistake in (
            lambda: Product.objects.create(code="kept", name="", price=1),
            lambda: Product.objects.create(code="negative", name="", price=-1),
            lambda: Product.objects.create(code="x" * 30, name="", price=1),
            lambda: Product.objects.create(code="null", name=None, price=1),
        ):
            try:
                with transaction.atomic():  # a savepoint
                    mistake()
            except (IntegrityError, DatabaseError) as error:
                say((type(error).__name__, error.args[0] in (1062, 4025, 3819, 1406, 1048)))
        kept = Product.objects.select_for_update().get(code="kept")
        kept.stock = 7
        kept.save(update_fields=["stock"])
        transaction.on_commit(lambda: say("committed"))
    say((Product.objects.count() - start, Product.objects.get(code="kept").stock))
    try:
        Product.objects.filter(line__isnull=False).delete()
    except IntegrityError as error:
        say(type(error).__name__)
    with transaction.atomic():
        point = transaction.savepoint()
        Product.objects.all().update(stock=0)
        transaction.savepoint_rollback(point)
    say(Product.objects.filter(stock=0).count())


def introspection() -> None:
    tables = ["shop_product", "shop_order", "shop_line", "shop_labels"]
    inspected = io.StringIO()
    call_command("inspectdb", *tables, stdout=inspected)
    # MariaDB has a type for UUIDs and checks its JSON; everything else is the same on all servers.
    say("\n".join(line for line in inspected.getvalue().splitlines() if " number = " not in line))
    with connection.cursor() as cursor:
        for table in tables:
            constraints = connection.introspection.get_constraints(cursor, table)
            for name in sorted(constraints):
                one = constraints[name]
                if not one["check"]:
                    say((table, one["columns"], one["primary_key"], one["unique"], one["foreign_key"], one["index"]))
            say(sorted(connection.introspection.get_primary_key_columns(cursor, table)))
            say(connection.introspection.get_sequences(cursor, table))


def flush() -> None:
    call_command("flush", interactive=False, stdout=io.StringIO())
    say((Product.objects.count(), User.objects.count()))


def zero() -> None:
    for label in ("shop", "sessions", "auth", "contenttypes"):
        command("migrate", label, "zero")
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE django_migrations")


def queue() -> None:
    """Messages by raw SQL, in the same transactions as rows of the ORM."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP QUEUE IF EXISTS {QUEUE}")
        cursor.execute(f"CREATE QUEUE {QUEUE} (code VARCHAR(20), payload JSON) WITH (ack_wait = '5m')")
        call_command("migrate", stdout=io.StringIO())
        for code, fails in (("lost", True), ("sold-1", False), ("sold-2", False)):
            try:
                with transaction.atomic():
                    Product.objects.create(code=code, name="", price=1)
                    cursor.execute(f"INSERT INTO {QUEUE} (code, payload) VALUES (%s, %s)", [code, '{"price": 1}'])
                    if fails:
                        raise RuntimeError
            except RuntimeError:
                say("rolled back")
        cursor.execute(f"SELECT id, code, payload FROM STREAM {QUEUE} LIMIT %s WAIT %s", [2, 10])
        messages = cursor.fetchall()
        say([(code, payload) for _, code, payload in messages])
        with transaction.atomic():
            Product.objects.filter(code=messages[0][1]).update(active=False)
            cursor.execute(f"ACK {QUEUE} %s", [messages[0][0]])
            say(f"acked {cursor.rowcount}")
        try:
            with transaction.atomic():
                cursor.execute(f"ACK {QUEUE} %s", [messages[1][0]])
                raise RuntimeError
        except RuntimeError:
            cursor.execute(f"SELECT code, state FROM {QUEUE} ORDER BY id")
            say(cursor.fetchall())
        say(list(Product.objects.order_by("code").values_list("code", "active")))
        cursor.execute(f"DROP QUEUE {QUEUE}")
    for label in ("shop", "sessions", "auth", "contenttypes"):
        call_command("migrate", label, "zero", stdout=io.StringIO())
