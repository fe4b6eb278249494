"""The names of methods and terms as papers print them: 'derpp+bfp' is 'DER++ w/ BFP'.

Kept apart from the registry in methods/, which needs torch. A method without a title here is shown
by its own name.
"""

METHODS = {
    "ft": "FT", "jt": "JT", "er": "ER", "der": "DER", "derpp": "DER++", "er_ace": "ER-ACE",
    "icarl": "iCaRL", "fdr": "FDR", "lucir": "LUCIR", "bic": "BiC", "lwf": "LwF", "ewc": "EWC",
    "si": "SI", "agem": "A-GEM", "gdumb": "GDumb",
}  # fmt: skip
TERMS = {"bfp": "BFP", "bfp2": "BFP-2", "fd": "FD"}


def title(method: str) -> str:
    """'derpp+bfp' -> 'DER++ w/ BFP'."""
    base, *terms = method.split("+")
    added = ", ".join(TERMS.get(term, term) for term in terms)
    return METHODS.get(base, base) + (f" w/ {added}" if terms else "")
