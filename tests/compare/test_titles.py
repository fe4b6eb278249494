"""Titles of methods and of what is added to them."""

from linsep.compare.titles import title


def test_titles_by_hand() -> None:
    assert title("derpp+bfp") == "DER++ w/ BFP"
    assert title("er_ace+fd+bfp2") == "ER-ACE w/ FD, BFP-2"
    assert title("mine+own") == "mine w/ own"
