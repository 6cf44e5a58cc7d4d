"""The files of an archive: their names, their content, where they are, and how a moment among them is named.

names      the names; `catalog` is what a listing of them says
segment, index, container, small_files    the content
moment     a point that a user asks for
store      a directory, or a store that obstore knows
"""
