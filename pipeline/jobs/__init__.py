"""The commands of the pipeline. Those of a command's name have run(arguments) -> exit code.

import_ export follow lost verify inspect   the commands; `import` is a word of Python
traffic        `inspect --traffic`

trees          the trees that a command line names
census         the pass over a tree before it is moved
compare        the pass over two trees for `verify`
tally          counts by key, for `inspect`
summary        what is printed at the end
failure        the message of a command that fails
"""
