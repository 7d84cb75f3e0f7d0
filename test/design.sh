#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# design.sh - draws docs/pictures/design.svg, the picture of docs/design.md, from the includes of
# the sources.
#
# usage: test/design.sh > docs/pictures/design.svg      (in the repository root)
#
# A room is a folder with sources. A box of the picture is a top folder with its rooms; a room
# stands above the rooms of its box that it includes. A full arrow is an include. If two arrows lead
# from one box through a second to a third, the arrow from the first to the third is left out. A
# dashed arrow leads to a library that is loaded at run time. The arrows to libsymtuner_ar.so start
# at the boxes with a file that names this library and calls dlopen.
set -u

{ git ls-files '*.c' '*.h' '*.cu' '*.cuh' 2> /dev/null ||
    find . -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sed 's|^\./||'; } |
    grep '^\(include\|base\|nccl\|rules\|plugin\|kernels\|dropin\|cli\|jax\|bench\)/' \
        > "${TMPDIR:-/tmp}/design.$$"
trap 'rm -f "${TMPDIR:-/tmp}/design.$$"' EXIT
{
    sed 's/$/ -/' "${TMPDIR:-/tmp}/design.$$"
    xargs grep -HE '^#include "' < "${TMPDIR:-/tmp}/design.$$" |
        sed -E 's/^([^:]*):#include "([^"]*)".*/\1 \2/'
    xargs grep -l '"libsymtuner_ar\.so"' < "${TMPDIR:-/tmp}/design.$$" | xargs grep -l 'dlopen(' |
        sed 's/$/ dlopen/'
    grep -q 'libsymtuner_ar\.so' jax/symtuner/_library.py && echo 'jax/symtuner dlopen'
} | LC_ALL=C sort -u | awk '
    function folder(path) { sub(/\/?[^\/]*$/, "", path); return path }
    function box_of(room) { if (room != "nccl/model") sub(/\/.*/, "", room); return room }
    function row_y(level) {
        return level == 4 ? 16 : level == 3 ? 150 : level == 2 ? 446 : level == 1 ? 592 : 738
    }
    function leaf(room) { sub(/.*\//, "", room); return room }

    # Return the level of a box: the number of arrows on the longest way down from it. Until the
    # level of a box is known, it is -1, so that the function also ends if includes go in a circle.
    function level(box,    i, below, here) {
        if (box in level_of) return level_of[box]
        level_of[box] = -1
        for (i = 1; i <= boxes; i++)
            if ((box, name[i]) in uses && (below = level(name[i]) + 1) > here) here = below
        return level_of[box] = here + 0
    }
    # Return the level of a room among the rooms of its box. Two rooms that include each other stand
    # side by side.
    function step(room,    other, below, here) {
        if (room in step_of) return step_of[room]
        step_of[room] = 0
        for (other in rooms)
            if (rooms[other] == rooms[room] && (room, other) in includes &&
                !((other, room) in includes) &&
                (below = step(other) + 1) > here) here = below
        return step_of[room] = here + 0
    }
    # Does box ${from} reach box ${to} by way of a third box?
    function detour(from, to,    i) {
        for (i = 1; i <= boxes; i++)
            if (name[i] != to && (from, name[i]) in uses && reaches(name[i], to)) return 1
        return 0
    }
    function reaches(from, to,    i) {
        if ((from, to) in uses) return 1
        for (i = 1; i <= boxes; i++)
            if ((from, name[i]) in uses && reaches(name[i], to)) return 1
        return 0
    }
    function draw_box(box, words,    x, y, wide, high, s, steps, i, count, at, list) {
        x = left[box]; y = row_y(level(box)); wide = width[box]
        steps = -1
        for (i = 1; i <= room_count; i++)
            if (rooms[room_name[i]] == box) {
                s = step(room_name[i])
                list[s] = list[s] " " room_name[i]
                if (s > steps) steps = s
            }
        high = steps > 0 || list[0] ~ / .* / ? 50 + 28 * (steps + 1) : 50
        height[box] = high
        printf "<rect class=\"box\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", x,
               y, wide, high
        printf "<text x=\"%d\" y=\"%d\" class=\"head\">%s/</text>\n", x + wide / 2, y + 20, box
        printf "<text x=\"%d\" y=\"%d\" class=\"dim\">%s</text>\n", x + wide / 2, y + 37, words
        if (high == 50) return
        for (s = steps; s >= 0; s--) {
            count = split(list[s], at, " ")
            for (i = 1; i <= count; i++) {
                cell = (wide - 16) / count
                printf "<rect class=\"room\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"22\" " \
                       "rx=\"4\"/>\n", x + 10 + cell * (i - 1), y + 46 + 28 * (steps - s), cell - 4
                printf "<text x=\"%.1f\" y=\"%d\">%s</text>\n", x + 8 + cell * (i - 0.5),
                       y + 61 + 28 * (steps - s), leaf(at[i]) (at[i] == box ? "/*" : "")
            }
        }
    }
    # Draw an arrow. ${by} is a corner on its way, as text of an SVG path, or "".
    function arrow(class, x1, y1, x2, y2, by) {
        printf "<path class=\"%s\" d=\"M%d %d%sL%d %d\" marker-end=\"url(#tip)\"/>\n", class, x1,
               y1, by, x2, y2
    }
    # Return the largest y (y grows downwards) of the boxes on level ${at}. An arrow from such a box
    # turns only below this y.
    function row_end(at,    i, y) {
        for (i = 1; i <= boxes; i++)
            if (level(name[i]) == at && row_y(at) + height[name[i]] > y)
                y = row_y(at) + height[name[i]]
        return y
    }
    # Return the corners of the arrow from box ${from}, which leaves the box at ${x}. The boxes that
    # jax includes, but the kernels do not, stand below the next row. So the arrows from jax to them
    # pass between two boxes of that row.
    function corners(from, x,    gap) {
        if (from != "jax") return level(from) == 3 ? sprintf("L%d %d", x, row_end(3) + 6) : ""
        gap = left["plugin"] - 7
        return sprintf("L%d %dL%d %d", gap, row_y(3) - 6, gap, row_end(3) + 6)
    }
    function middle(box) { return left[box] + width[box] / 2 }
    # Return the place nearest to ${x} at which an arrow may touch a box.
    function inside(box, x) {
        if (x < left[box] + 10) return left[box] + 10
        return x > left[box] + width[box] - 10 ? left[box] + width[box] - 10 : x
    }

    {
        here = folder($1)
        if (!(here in rooms)) { rooms[here] = box_of(here); room_name[++room_count] = here }
        if (!(box_of(here) in seen)) { seen[box_of(here)] = 1; name[++boxes] = box_of(here) }
    }
    $2 == "dlopen" { loads[box_of(here)] = 1; next }
    $2 == "-" || $2 ~ /^(test|xla)\// { next }
    {
        to = folder($2 ~ /^nccl_abi\// || $2 !~ /\// ? "include/" $2 : $2)
        includes[here, to] = 1
        if (box_of(here) != box_of(to)) uses[box_of(here), box_of(to)] = 1
    }
    END {
        delete rooms["jax/symtuner"]
        uses["jax", "kernels"] = 1 # puts jax above the kernels; no arrow is drawn for this
        place = "cli 10 266;kernels 290 250;plugin 554 236;nccl/model 120 190;rules 430 174;" \
                "dropin 612 184;nccl 290 190;bench 10 190;include 290 220;base 604 186;jax 290 250"
        count = split(place, row, ";")
        for (i = 1; i <= count; i++) {
            split(row[i], part, " ")
            left[part[1]] = part[2]
            width[part[1]] = part[3]
        }
        for (i = 1; i <= boxes; i++)
            if (!(name[i] in left)) {
                print "design.sh: say where the box " name[i] " stands" > "/dev/stderr"
                exit 1
            }

        print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 824\" " \
              "font-family=\"sans-serif\" font-size=\"12\">"
        print "<title>The rooms of the source, and which includes which</title>"
        print "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" " \
              "markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path class=\"tip\" d=\"M0 " \
              "0L8 4L0 8z\"/></marker></defs>"
        print "<style>"
        print "text{fill:#1f2328;text-anchor:middle}.dim{fill:#59636e;font-size:11px}" \
              ".head{font-weight:bold;font-size:14px}"
        print ".box{fill:#f6f8fa;stroke:#59636e}.room{fill:#ddf4ff;stroke:#54aeff}" \
              ".line,.load{stroke:#59636e;stroke-width:1.5;fill:none}.load{stroke-dasharray:5 4}" \
              ".tip{fill:#59636e}"
        print "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}" \
              ".box{fill:#161b22;stroke:#9198a1}.room{fill:#0c2d6b;stroke:#1f6feb}" \
              ".line,.load{stroke:#9198a1}.tip{fill:#9198a1}}"
        print "</style>"
        draw_box("cli", "the command symtuner")
        draw_box("kernels", "libsymtuner_ar.so")
        draw_box("plugin", "libsymtuner.so, loaded by NCCL")
        draw_box("nccl/model", "what NCCL would decide")
        draw_box("rules", "the rules language, the box")
        draw_box("dropin", "libsymtuner_nccl.so")
        draw_box("nccl", "NCCL as data")
        draw_box("bench", "programs that measure")
        draw_box("include", "public headers")
        draw_box("base", "hash, shared memory")
        draw_box("jax", "JAX package, libsymtuner_ffi.so")
        printf "<text x=\"%d\" y=\"96\" class=\"head\">NCCL</text>\n", middle("plugin")
        arrow("load", middle("plugin"), 104, middle("plugin"), row_y(3) - 2)
        for (i = 1; i <= boxes; i++)
            for (j = 1; j <= boxes; j++) {
                from = name[i]; to = name[j]
                if (!((from, to) in uses) || from == "jax" && to == "kernels" || detour(from, to))
                    continue
                x = inside(from, middle(from) + (middle(to) - middle(from)) / 8)
                if (from == "jax") x = left[from] + width[from] - 30
                arrow("line", x, row_y(level(from)) + height[from],
                    inside(to, middle(to) + (middle(from) - middle(to)) / 4), row_y(level(to)) - 2,
                    corners(from, x))
            }
        if ("jax" in loads)
            arrow("load", middle("jax"), row_y(4) + height["jax"], middle("kernels"), row_y(3) - 2)
        if ("cli" in loads)
            arrow("load", left["cli"] + width["cli"], row_y(3) + 28, left["kernels"] - 2,
                  row_y(3) + 28)
        print "</svg>"
    }'
