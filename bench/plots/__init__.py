"""`python -m bench.plots`: figures and tables of the documents, from the committed results (`make plots`).

No figure in a document is copied by hand. The way of one:

* `results` reads the JSON that `python -m bench`, `python -m bench --curves` and `python -m bench.scenarios`
  wrote into `bench/results`;
* `figures` draws it with matplotlib; `style` has the colours, and turns a figure into the same SVG each time;
* `aims` compares it with what was aimed at;
* `blocks` makes the Markdown that a document shows of it;
* `document` puts that between the document's marks.

All but `results` and `__main__` is pure.
"""
