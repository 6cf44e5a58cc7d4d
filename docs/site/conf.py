"""Settings of the site of the documents (`make docs`). The site loads nothing from other hosts."""

project = "zketcd"
copyright = "the authors of zketcd, Apache-2.0"
root_doc = "README"
extensions = ["myst_parser"]
# Links such as operating.md#when-etcd-is-full name headings as the forges' viewers of Markdown do.
myst_heading_anchors = 4
# What is shown as it is typed.
highlight_language = "none"
# The pages of decisions are listed by their own page.
suppress_warnings = ["toc.not_included"]
html_theme = "furo"
html_title = "zketcd"
html_show_sphinx = False
html_copy_source = False
