"""Loop IR and assembly side by side: a line that is chosen, by a click or the arrow keys, marks its
instructions, an instruction its line. Without scripts the numbers at the left say the same. Knows texts and
numbers; nothing of compilers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .html import BLUE, coloured, escape

MOST = 2500  # lines of assembly, after which it is cut

STYLE = (
    "<style>.tl-pair{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:.8em}"
    "@media(max-width:1000px){.tl-pair{grid-template-columns:minmax(0,1fr)}}"
    ".tl-box .tl-pair pre{max-height:34em;overflow:auto;padding:.4em 0;margin:0}"
    ".tl-pair pre>span{display:block;padding:0 .6em 0 0;cursor:pointer;white-space:pre}"
    ".tl-pair pre>span::before{content:attr(data-n);display:inline-block;width:4ch;margin-right:2ch;"
    "text-align:right;opacity:.55}"
    ".tl-pair pre>span.on{background:rgba(47,127,209,.22);box-shadow:inset 4px 0 0 " + BLUE + "}"
    ".tl-pair pre>span.at{outline:1px dashed currentColor;outline-offset:-1px}"
    ".tl-pair pre:focus-visible,.tl-box button:focus-visible{outline:2px solid currentColor}"
    ".tl-box button{font:inherit;color:inherit;background:none;border:1px solid currentColor;"
    "border-radius:4px;padding:0 .5em;cursor:pointer}"
    ".tl-note{min-height:1.6em;font-weight:600}</style>"
)
# A pane is one stop of the tab key; arrows move in it, Escape clears. Clicks and buttons choose a range of
# lines of the loop IR; what is of these lines is marked in both panes, and the first of each is brought into
# view inside its pane.
SCRIPT = """<script>
for (const pair of document.querySelectorAll('.tl-pair')) {
  const panes = [...pair.querySelectorAll('pre')], note = pair.parentNode.querySelector('.tl-note');
  const rows = p => [...p.children], first = s => +s.dataset.n || 0;
  const mark = (low, high, from) => {
    const counts = panes.map(p => rows(p).filter(s => {
      const on = first(s) >= low && first(s) <= high && low > 0;
      s.classList.toggle('on', on); s.setAttribute('aria-selected', on); return on;
    }));
    panes.forEach((p, n) => {
      const one = counts[n][0];
      if (p !== from && one) p.scrollTop += one.getBoundingClientRect().top - p.getBoundingClientRect().top
        - p.clientHeight / 3;
    });
    const moved = counts[1].filter(s => s.dataset.m).length;
    const count = counts[1].length + (counts[1].length === 1 ? ' instruction' : ' instructions');
    note.textContent = low ? `line ${low}${high > low ? '…' + high : ''}: ${count}`
      + (moved ? `, ${moved} of them move registers to or from the stack` : '') : '';
  };
  const at = (p, s) => {
    rows(p).forEach(r => r.classList.toggle('at', r === s));
    p.setAttribute('aria-activedescendant', s.id);
    if (p === panes[0]) mark(first(s), +(s.dataset.e || s.dataset.n), p); else mark(first(s), first(s), p);
    s.scrollIntoView({block: 'nearest'});
  };
  for (const p of panes) {
    p.addEventListener('click', e => { const s = e.target.closest('pre>span'); if (s) at(p, s); });
    p.addEventListener('keydown', e => {
      const all = rows(p), now = all.findIndex(s => s.classList.contains('at'));
      const to = {ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1}[e.key];
      if (e.key === 'Escape') mark(0, 0);
      else if (to !== undefined && all[to]) { e.preventDefault(); at(p, all[to]); }
    });
  }
  for (const b of document.querySelectorAll('button[data-n]'))
    b.addEventListener('click', () => {
      mark(+b.dataset.n, +b.dataset.e); pair.scrollIntoView({block: 'center'});
    });
}
</script>"""


class Row(NamedTuple):
    """A line of assembly: its text, the line of the loop IR it is of (0: none), and whether it moves a
    register to or from the stack."""

    text: str
    line: int
    moved: bool


def ends(lines: Sequence[str]) -> list[int]:
    """For each line, from 1, the last line of the block that it opens, or itself."""
    depth = [len(x) - len(x.lstrip()) for x in lines]
    found = []
    for n in range(len(lines)):
        m = n + 1
        while m < len(lines) and depth[m] > depth[n]:
            m += 1
        found.append(m if lines[n].rstrip().endswith(":") else n + 1)
    return found


def linked(lines: Sequence[str], rows: Sequence[Row]) -> str:
    """The two panes; ``SCRIPT`` on the same page joins them."""
    left = "".join(
        f'<span role="option" id="l{n}" data-n="{n}" data-e="{e}">{coloured(text)}</span>'
        for n, (text, e) in enumerate(zip(lines, ends(lines), strict=True), 1)
    )
    right = "".join(
        f'<span role="option" id="i{n}"{f" data-n={r.line}" if r.line else ""}'
        f"{' data-m=1' if r.moved else ''}>{escape(r.text.expandtabs(8))}</span>"
        for n, r in enumerate(rows[:MOST])
    )
    if len(rows) > MOST:
        right += f'<span role="option" id="i">… {len(rows) - MOST} more lines</span>'
    panes = "".join(
        f'<pre role="listbox" tabindex="0" aria-label="{words}">{text}</pre>'
        for words, text in (("loop IR, as it is translated", left), ("assembly", right))
    )
    return (
        f"{STYLE}<div>Click a line, or move with the arrow keys: a loop marks its instructions, an "
        f'instruction its line, which is the number in front. Escape clears.</div><div class="tl-note" '
        f'aria-live="polite"></div><div class="tl-pair">{panes}</div>'
    )


def chooser(words: str, line: int, end: int) -> str:
    """A button that marks these lines."""
    return f'<button data-n="{line}" data-e="{end}">{escape(words)}</button>'
