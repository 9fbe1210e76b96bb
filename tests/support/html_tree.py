"""An HTML page as a tree of elements, to ask what is in it."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser


class Node:
    """An element of a page, with what is in it."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = name, attributes
        self.children: list[Node] = []
        self.pieces: list[Node | str] = []

    @property
    def text(self) -> str:
        words = (p if isinstance(p, str) else p.text for p in self.pieces)
        return "".join(words)

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, name: str, kind: str | None = None) -> list["Node"]:
        return [
            node
            for node in self.walk()
            if node.name == name
            and (kind is None or kind in node.attributes.get("class", "").split())
        ]

    def by_id(self, key: str) -> "Node":
        (node,) = [node for node in self.walk() if node.attributes.get("id") == key]
        return node

    def number(self, name: str) -> float:
        return float(self.attributes[name])


class Reader(HTMLParser):
    """Builds the tree, and refuses a page whose elements do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(node)
        self.open[-1].pieces.append(node)
        if tag != "meta":
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        if tag != "meta":
            assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].pieces.append(data)


def parse(text: str) -> Node:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def width(bar: Node) -> float:
    found = re.fullmatch(r"width:([\d.]+)%", bar.attributes["style"])
    assert found
    return float(found[1])


def spots(line: Node) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in line.attributes["points"].split())
    return [(float(x), float(y)) for x, y in pairs]
