# Groups the source files named as arguments into units that are compiled together (HEED_UNITY):
#   awk -v lines=1500 -f unity_groups.awk FILE…   prints one line per unit, its files separated by "|".
# Only files of one folder share a unit, and only while no name that a file defines in an unnamed namespace
# (functions, types, constants) is defined by another in that of the same scope: such functions would become
# overloads of each other. The same alias (using X = Y) may stand in both.

# The name that a definition at the beginning of a line introduces.
function defined_name(line,    head) {
  if (line ~ /^(struct|class|enum|union) /) {
    sub(/^(struct|class|enum class|enum|union) +/, "", line)
    sub(/[^A-Za-z0-9_].*/, "", line)
    return line
  }
  if (line ~ /^using [A-Za-z0-9_]+ =/) {
    split(line, head, " ")
    return head[2]
  }
  if (line ~ /operator/) return "operator"
  sub(/[({=;].*/, "", line)
  sub(/\[[^\]]*\] *$/, "", line)
  sub(/ +$/, "", line)
  sub(/.*[^A-Za-z0-9_]/, "", line)
  return line
}

function folder_of(file) {
  sub(/\/[^\/]*$/, "", file)
  return file
}

# Finishes the file that was read: it joins the first unit of its folder that has room and none of its names.
function place(    unit, name, fits) {
  for (unit = 1; unit <= units; unit++) {
    fits = folder[unit] == folder_of(file) && length_of[unit] + length_now <= lines
    for (name in names) if (fits && ((unit, name) in taken) && !(taken[unit, name] == names[name] && names[name] ~ /^using /)) fits = 0
    if (fits) break
  }
  if (unit > units) {
    units = unit
    folder[unit] = folder_of(file)
  }
  members[unit] = members[unit] (members[unit] == "" ? "" : "|") file
  length_of[unit] += length_now
  for (name in names) taken[unit, name] = names[name]
}

FNR == 1 {
  if (file != "") place()
  file = FILENAME
  length_now = 0
  inside = 0
  scope = ""
  split("", names)
}
{ length_now++ }
/^namespace [A-Za-z].*\{$/ { scope = $2; next }
/^namespace \{/ { inside = 1; next }
/^\}  \/\/ namespace$/ { inside = 0; next }
(inside && /^[A-Za-z_\[]/ && !/^(namespace|template|public|private)/) || /^static / || /^using [A-Za-z0-9_]+ =/ {
  name = defined_name($0)
  if (name != "") names[scope "::" name] = $0
}
END {
  if (file != "") place()
  for (unit = 1; unit <= units; unit++) print members[unit]
}
