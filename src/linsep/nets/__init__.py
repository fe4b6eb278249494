"""Networks: backbones whose blocks can be tapped, heads, and backbones by name."""
