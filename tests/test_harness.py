import psycopg


def test_the_embedded_server_answers(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert connection.info.server_version >= 130000
        assert connection.execute("select 'ø😀'").fetchone() == ("ø😀",)
