"""`python -m bench.plots`: curves and tables of the documents, from the committed results (`make plots`).

No figure in a document is copied by hand. The way of one:

* `results` reads the JSON that `python -m bench`, `python -m bench --curves` and `python -m bench.scenarios`
  wrote into `bench/results`;
* `blocks` makes the Markdown that a document shows of it, between the document's marks;
* `figures` draws the curves with matplotlib.
"""
