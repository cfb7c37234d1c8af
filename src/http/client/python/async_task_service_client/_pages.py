"""Paginated lists: one page, or the rows of all pages."""

from typing import Any, Callable, Dict, Generic, Iterator, List, Optional, TypeVar

from .types import PageMeta

Row = TypeVar("Row")


class Page(Generic[Row]):
    """One page of a list. Iterating over it yields the rows of this and all later pages."""

    def __init__(self, fetch: Callable[[int], Dict[str, Any]], number: int, key: str) -> None:
        body = fetch(number)
        self.data: List[Row] = body["data"]
        self.meta: PageMeta = body["meta"]
        self._fetch = fetch
        self._key = key

    @property
    def has_next_page(self) -> bool:
        return self.meta["current_page"] < self.meta["last_page"]

    def next_page(self) -> "Optional[Page[Row]]":
        """The next page, or None after the last one."""
        return Page(self._fetch, self.meta["current_page"] + 1, self._key) if self.has_next_page else None

    def __iter__(self) -> Iterator[Row]:
        """Pages are requested when they are needed. A row that moves to the next page meanwhile is yielded once."""
        yield from self.data
        seen, page = self._keys(), self.next_page()
        while page is not None:
            keys = page._keys()
            yield from (row for row, key in zip(page.data, keys) if key not in seen)
            seen, page = keys, page.next_page()

    def _keys(self) -> List[Any]:
        rows: List[Any] = list(self.data)
        return [row[self._key] for row in rows]
