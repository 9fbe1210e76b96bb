"""How the page looks: one accent colour, light or dark as the reader's system is."""

__all__ = ["STYLE"]

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f5f6f7; --ink: #1a1e23; --muted: #59636e; --rule: #d8dce0;
  --accent: #0a6c74; --wash: #cfe3e4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --panel: #1c2024; --ink: #e7e9eb; --muted: #a0aab4; --rule: #343a41;
    --accent: #5cc4c4; --wash: #21444a;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0 auto; padding: 2.5rem clamp(1rem, 4vw, 2.5rem) 4rem; max-width: 1200px;
  background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: break-word;
}
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: 0.92em; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
h1, h2, h3, h4 { line-height: 1.25; font-weight: 600; text-wrap: balance; }
h1 { margin: 0 0 0.5rem; font-size: clamp(1.6rem, 4vw, 2.2rem); letter-spacing: -0.01em; }
h2 { margin: 3.5rem 0 0.5rem; padding-top: 1rem; border-top: 1px solid var(--rule);
  font-size: 1.3rem; }
h3 { margin: 0 0 0.6rem; font-size: 1rem; }
p { margin: 0 0 0.75rem; max-width: 46rem; }
.over { margin: 0 0 0.25rem; color: var(--muted); font-size: 0.9rem; }
.lead { font-size: 1.1rem; }
.note { color: var(--muted); font-size: 0.9rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 1.25rem 0 0; }
nav a { font-size: 0.95rem; padding: 0.15rem 0; }

.cards { display: grid; gap: 0.75rem; margin: 1.75rem 0 0.75rem;
  grid-template-columns: repeat(5, 1fr); }
.card { background: var(--panel); border-radius: 6px; padding: 0.9rem 1rem; }
.card h3 { margin: 0; color: var(--muted); font-size: 0.9rem; font-weight: 500; }
.card .pair { margin: 0.3rem 0 0; color: var(--muted); font-size: 0.95rem; }
.card .pair span { white-space: nowrap; }
.card .pair b { color: var(--ink); font-size: 1.4rem; font-weight: 600; letter-spacing: -0.01em;
  white-space: nowrap; }
.card .change { margin: 0; font-weight: 600; color: var(--accent); }
.card .note { margin: 0.2rem 0 0; font-size: 0.82rem; line-height: 1.4; }

figure { margin: 0; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; align-items: baseline;
  margin-bottom: 0.4rem; font-size: 0.9rem; }
figcaption strong { flex-basis: 100%; font-size: 1rem; font-weight: 600; }
.key::before { content: ""; display: inline-block; width: 1.4em; height: 0; margin-right: 0.4em;
  vertical-align: 0.28em; border-top: 2px solid var(--accent); }
.key.other::before { border-top: 2px dashed var(--muted); }
.key.band::before { height: 0.8em; border: 0; background: var(--wash); vertical-align: -0.1em; }
.key.box::before { width: 0.8em; height: 0.8em; border: 1px solid var(--muted);
  background: var(--paper); vertical-align: -0.08em; }
.key.box.after::before { border-color: var(--accent); background: var(--accent); }
.charts { display: grid; gap: 1.75rem 2rem; margin-top: 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20.5rem), 1fr)); }
.charts .note { margin: 0.25rem 0 0; font-size: 0.85rem; line-height: 1.45; }
svg { display: block; width: 100%; height: auto; }
.charts svg { max-width: 30rem; }
svg text { fill: var(--muted); font-size: 12px; }
svg .grid { stroke: var(--rule); }
svg .axis { stroke: var(--muted); }
svg .band { fill: var(--wash); }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .line.main { stroke: var(--accent); }
svg .line.other { stroke: var(--muted); stroke-dasharray: 5 3; }
svg .dot.main { fill: var(--accent); }
svg .dot.other { fill: var(--muted); }

.skyline { margin: 1.5rem 0 2rem; }
.skyline svg { height: 8.5rem; overflow: visible; border-bottom: 1px solid var(--muted); }
.skyline rect { vector-effect: non-scaling-stroke; }
.skyline .before { fill: none; stroke: var(--muted); stroke-width: 1; }
.skyline .after { fill: var(--accent); }
.stages { display: flex; font-size: 0.8rem; color: var(--muted); }
.stages span { flex-basis: 0; min-width: 0; overflow: hidden; text-overflow: ellipsis;
  padding: 0.2rem 0 0 0.3rem; line-height: 1.3; }
.stages span:not(:empty) { border-left: 1px solid var(--rule); }

.network { display: grid; gap: 0.75rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
.stage { background: var(--panel); border-radius: 6px; padding: 0.9rem 1rem; min-width: 0;
  display: grid; grid-template-columns: fit-content(42%) minmax(3rem, 1fr) max-content;
  column-gap: 0.7rem; align-content: start; }
.stage > *, .block > h4 { grid-column: 1 / -1; }
.block, .layer { display: grid; grid-template-columns: subgrid; grid-column: 1 / -1; }
.stage.lone { grid-column: 1 / -1; }
.stage.wide { grid-column: 1 / -1; column-gap: 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
.wide .block { grid-column: auto; column-gap: 0.7rem; align-content: start;
  grid-template-columns: 6.8rem minmax(3rem, 1fr) 5.8rem; }
.stage.lone h3 { font-size: 0.9rem; font-weight: 500; color: var(--muted); }
.depth { font-weight: 400; color: var(--muted); font-size: 0.9rem; }
.block { border-left: 2px solid var(--accent); padding-left: 0.7rem; margin-top: 0.7rem; }
.block.dropped { border-left: 2px dotted var(--muted); }
.block h4 { margin: 0; font-size: 0.82rem; font-weight: 500; color: var(--muted); }
.layer { align-items: center; font-size: 0.88rem; line-height: 1.65; }
.layer code { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.layer .numbers { text-align: right; white-space: nowrap; color: var(--muted); }
.layer .numbers b { color: var(--ink); }
.track { display: block; height: 0.8rem; border: 1px solid var(--muted); border-radius: 2px;
  background: var(--paper); }
.fill { display: block; height: 100%; background: var(--accent); }
.layer.dropped { color: var(--muted); }
.layer.dropped .track { border-style: dashed; background: none; position: relative; }
.layer.dropped .track::after { content: ""; position: absolute; inset: 50% 0 auto;
  border-top: 1px solid var(--muted); }

.map { display: grid; gap: 1rem 3rem; margin-top: 2.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.map svg { max-width: 34rem; }
.map .cell { fill: var(--accent); shape-rendering: crispEdges; }
.map rect.kept { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.map text.kept { fill: var(--ink); font-weight: 600; }
.map .kept-note { font-weight: 600; margin-bottom: 0.4rem; }
.map label { display: block; margin-bottom: 0.3rem; font-size: 0.9rem; color: var(--muted); }
.scale { display: flex; align-items: center; gap: 0.5rem; font-size: 0.85rem;
  color: var(--muted); margin-bottom: 0.75rem; }
.scale svg { width: 10rem; flex: none; }
#readout { min-height: 1.6em; }
select { font: inherit; color: inherit; background: var(--panel); padding: 0.45rem 0.6rem;
  border: 1px solid var(--muted); border-radius: 4px; max-width: 100%; margin-bottom: 1rem; }

.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { padding: 0.35rem 0.8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
th { font-weight: 500; color: var(--muted); vertical-align: bottom; }
td b { font-weight: 600; }
th:first-child, td:first-child,
#layers :is(th, td):is(:nth-child(3), :nth-child(4)) { text-align: left; }
th:first-child, td:first-child { padding-left: 0; position: sticky; left: 0;
  background: var(--paper); }
tr.dropped td { color: var(--muted); }
tr.whole td { font-weight: 600; border-bottom: 0; border-top: 1px solid var(--muted); }
.spread { color: var(--muted); }
pre { background: var(--panel); border-radius: 6px; padding: 0.9rem 1rem; margin: 0.75rem 0 1.5rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
dl { margin: 0.5rem 0 2rem; columns: 19rem; column-gap: 2.5rem; font-size: 0.9rem; }
dl div { display: flex; justify-content: space-between; gap: 1rem; padding: 0.22rem 0;
  border-bottom: 1px solid var(--rule); break-inside: avoid; }
dt { color: var(--muted); overflow-wrap: anywhere; min-width: 5rem; }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; min-width: 0; }

@media (max-width: 72rem) {
  .cards { grid-template-columns: repeat(6, 1fr); }
  .card { grid-column: span 2; }
  .card:nth-child(n + 4) { grid-column: span 3; }
}
@media (max-width: 40rem) {
  .cards { grid-template-columns: 1fr 1fr; }
  .card, .card:nth-child(n + 4) { grid-column: auto; }
  .card:first-child { grid-column: 1 / -1; }
  .card { padding: 0.75rem 0.8rem; }
  .card .pair span, .spread { display: block; }
  .card .pair { line-height: 1.3; }
  th, td { padding: 0.35rem 0.5rem; }
  .map svg text { font-size: 14px; }
}
@media print { nav, select, .map label { display: none; } h2 { break-after: avoid; } }
"""
