#!/usr/bin/env bash
# The bill of materials is JSON of SPDX 2.3, names every library that the program links, and is the same each time.
set -u
heed=$1
source_folder=$2
for tool in python3 dpkg-query ldd; do
  command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export SOURCE_DATE_EPOCH=1700000000
bash "$source_folder/tools/sbom.sh" "$heed" >"$folder/first" && bash "$source_folder/tools/sbom.sh" "$heed" >"$folder/second" || exit 1
cmp "$folder/first" "$folder/second" || exit 1
# The Debian package of each linked file; the loader may name a file with or without /usr.
ldd "$heed" | sed -nE 's/.*=> (\/[^ ]+).*/\1/p' | xargs -n1 readlink -f | while read -r file; do
  dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}" || echo "none: $file"
done | sed -E 's/^([^:,]+).*/\1/' | sort -u >"$folder/needed"
python3 - "$folder/first" "$folder/needed" "$heed" <<'END'
import hashlib, json, re, sys
document = json.load(open(sys.argv[1]))
assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
assert document["SPDXID"] == "SPDXRef-DOCUMENT" and document["name"] and "#" not in document["documentNamespace"]
assert re.fullmatch(r"[a-z][a-z0-9+.-]*://\S+", document["documentNamespace"])
created = document["creationInfo"]["created"]
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created), created
assert all(re.match(r"(Tool|Organization|Person): \S", name) for name in document["creationInfo"]["creators"])
assert document["creationInfo"]["creators"]
for package in document["packages"]:
    assert package["name"] and package["downloadLocation"] and package["versionInfo"], package
    assert package["filesAnalyzed"] is False, "without files there is no packageVerificationCode"
    for entry in package.get("checksums", []):
        assert entry["algorithm"] == "SHA256" and re.fullmatch("[0-9a-f]{64}", entry["checksumValue"]), entry
packages = {package["SPDXID"]: package for package in document["packages"]}
assert len(packages) == len(document["packages"]), "an identifier is there twice"
assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in packages)
assert any(relation["relationshipType"] == "DESCRIBES" for relation in document["relationships"])
for relation in document["relationships"]:
    assert relation["spdxElementId"] in packages or relation["spdxElementId"] == "SPDXRef-DOCUMENT", relation
    assert relation["relationshipType"] in {"DESCRIBES", "DYNAMIC_LINK", "STATIC_LINK"}, relation
    assert relation["relatedSpdxElement"] in packages, relation
sums = {entry["checksumValue"] for package in packages.values() for entry in package.get("checksums", [])}
digest = lambda file: hashlib.sha256(open(file, "rb").read()).hexdigest()
assert digest(sys.argv[3]) in sums, "the program itself is missing"
known = {package["name"] for package in packages.values()}
missing = [name for name in open(sys.argv[2]).read().split() if name not in known]
assert not missing, missing
END
