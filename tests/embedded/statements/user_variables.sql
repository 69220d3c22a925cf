create table uv (id int primary key, v varchar(10), d decimal(10,2))
insert into uv values (1, 'a', 1.25), (2, 'b', 2.50), (3, null, 3.75)
select @a := 5
select @a
select @a := 5 as x, @a + 0 > 4, @b := @a * 2 as y, cast(@b as signed)
select cast(@a as signed), cast(@b as signed)
select @m := max(id) from uv
select @m
select @x := id, @y := v, @z := d from uv order by id
select @x, @y, @z
select @x := id, @y := v, @z := d from uv where id = 1
select @x, @y, @z
select *, @x := id * 2 from uv order by id desc
select @x
select case v when 'a' then @k := 1 when 'b' then @k := (2) else @k := 3 end as q, cast(@k + 10 as signed), cast(if(id > 1, @s := id, @s := -id) as signed), cast(@s as signed) from uv order by id
select @k, @s
select @q := id from uv where id > 100
select @q is null
select @n := v, @n is null, concat('x', @n) from uv order by id limit 2
select @n
select @c := (select count(*) from uv), @c + 1 > 3
select @c
select case when id = 1 then @j := case when v = 'a' then 5 else 6 end else @j := 7 end, cast(@j as char) from uv order by id
select @j
select @dt := 1, cast(@dt := @dt + 1 as signed), cast(@dt as signed)
select cast(@dt as signed)
set @p = @o := 7
select @p, @o
select @`odd name` := 3, cast(@'odd name' + 1 as signed)
select t.id, @w := t.id + u.id from uv t join uv u on u.id = t.id where t.id < 3 order by t.id
select @w
drop table uv
