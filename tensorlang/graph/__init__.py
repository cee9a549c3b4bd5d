"""Whole programs: graphs of operators, and the engines they become. Knows te, ops, recipes and build; nothing
of files of other frameworks, and nothing of searches.
"""

from ..entries import share
from ..runtime.engine import Engine
from .graph import Node, Opaque, Program, Value
from .model import Graph

__all__ = ["Engine", "Graph", "Node", "Opaque", "Program", "Value"]

share(__name__)
