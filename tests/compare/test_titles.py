"""Titles: every registered method and term has one, and nothing else does."""

from linsep.compare.titles import METHODS, TERMS, title
from linsep.methods import METHODS as REGISTERED
from linsep.methods import TERMS as REGISTERED_TERMS


def test_titles_are_those_of_the_registry() -> None:
    assert set(METHODS) == set(REGISTERED)
    assert set(TERMS) == set(REGISTERED_TERMS)


def test_titles_by_hand() -> None:
    assert title("derpp+bfp") == "DER++ w/ BFP"
    assert title("er_ace+fd+bfp2") == "ER-ACE w/ FD, BFP-2"
    assert title("mine+own") == "mine w/ own"
