#!/usr/bin/env bash
# Writes a graph for dot to standard output: the folders of one half of the product and the arrows
# between them, as CMake knows them.
#
#   rooms.sh trainer|operator LAYERS     LAYERS is build/release/layers.txt, which configuring writes
#
# An arrow means "may include from"; arrows that follow from others are left out (tred of
# Debian's graphviz). The test architecture_page fails when a picture is older than the CMake files.
set -euo pipefail
half=$1 layers=$2
{
  echo "digraph $half {"
  awk -F '|' -v half="$half/" 'index($1, half) == 1 {
    print "\"" substr($1, length(half) + 1) "\""
    count = split($2, deps, ",")
    for (i = 1; i <= count; ++i) print "\"" substr($1, length(half) + 1) "\" -> \"" substr(deps[i], length(half) + 1) "\""
  }' "$layers"
  echo "}"
} | tred | sed '1a\
  bgcolor="transparent"; rankdir=TB; nodesep=0.18; ranksep=0.32; \
  node [shape=box, style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize=12, color="#3f8fd2", fillcolor="#3f8fd222", fontcolor="#3f8fd2", height=0.3, margin="0.12,0.05"]; \
  edge [color="#7a8594", arrowsize=0.6];'
