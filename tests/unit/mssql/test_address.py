"""Reading URLs of SQL Server, and writing connection strings that no value can break out of."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import ConnectionInvalid
from dpone_dagster.mssql.address import Address, connection_string


def test_a_url_encrypts_and_verifies_by_default() -> None:
    address = Address.parse("mssql://ada:s3cret@db.example:14330/dwh")
    assert address.keywords() == {
        "Server": "tcp:db.example,14330",
        "Database": "dwh",
        "UID": "ada",
        "PWD": "s3cret",
        "Encrypt": "yes",
        "TrustServerCertificate": "no",
    }


def test_options_are_taken_over() -> None:
    keywords = Address.parse(
        "mssql://ada:x@db/dwh?encrypt=strict&hostname_in_certificate=db.example&trust_server_certificate=No"
    ).keywords()
    assert keywords["Server"] == "tcp:db,1433"
    assert (keywords["Encrypt"], keywords["HostnameInCertificate"]) == ("strict", "db.example")
    assert keywords["TrustServerCertificate"] == "no"


def test_names_and_passwords_may_be_percent_encoded() -> None:
    address = Address.parse("mssql://dom%5Cada:p%40ss%2Fw%7D%3B@db/the%20dwh")
    assert (address.user, address.secret, address.database) == ("dom\\ada", "p@ss/w};", "the dwh")


def test_no_user_means_integrated_security() -> None:
    assert Address.parse("mssql://db/dwh").keywords()["Trusted_Connection"] == "yes"
    assert "Trusted_Connection" not in Address.parse("mssql://db/dwh?authentication=ActiveDirectoryMsi").keywords()


@pytest.mark.parametrize("value", ["};UID=sa;PWD={", "a;b", "{", "}", "}}", " x ", ""])
def test_no_value_breaks_out_of_its_braces(value: str) -> None:
    text = connection_string({"PWD": value, "Database": "dwh"})
    inner = text.removeprefix("PWD={").removesuffix("};Database={dwh};")
    assert inner.replace("}}", "").count("}") == 0
    assert inner.replace("}}", "}") == value


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://ada:s3cret@db/dwh", "scheme"),
        ("mssql://ada:s3cret@db", "no database"),
        ("mssql://ada:s3cret@/dwh", "no host"),
        ("mssql://ada:s3cret@db:port/dwh", "cannot be read"),
        ("mssql://ada:s3cret@db/dwh?pooling=yes", "`pooling` is unknown"),
        ("mssql://ada:s3cret@db/dwh?encrypt=maybe", "one of"),
    ],
)
def test_a_wrong_url_is_refused_without_its_secret(url: str, problem: str) -> None:
    with pytest.raises(ConnectionInvalid, match=problem) as caught:
        Address.parse(url)
    assert "s3cret" not in str(caught.value)


def test_the_secret_is_in_no_repr() -> None:
    assert "s3cret" not in repr(Address.parse("mssql://ada:s3cret@db/dwh"))
