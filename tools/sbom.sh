#!/usr/bin/env bash
# sbom.sh PROGRAM [DELIVERED]: an SPDX 2.3 document in JSON about the program: its own checksum, or that of DELIVERED
# (a stripped copy), the libraries it links and the header-only ones it was compiled with, each with its Debian
# package, version and checksum.
# SOURCE_DATE_EPOCH, or the last commit's time, is the document's: the same commit gives the same document.
set -euo pipefail
program=$1
version=$("$program" --version | sed -nE 's/^heed ([0-9.]+).*/\1/p')
seconds=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ)
checksum=$(sha256sum "${2:-$program}" | cut -d' ' -f1)

# The linked files with their Debian packages, in one query: dpkg reads its lists of files each time it is
# asked. A root with a merged /usr may know a file with and without it.
linked_packages() {
  local files
  mapfile -t files < <(ldd "$program" | sed -nE 's/.*=> (\/[^ ]+).*/\1/p' | xargs -r -n1 readlink -f)
  [ ${#files[@]} -eq 0 ] || { dpkg-query -S "${files[@]}" "${files[@]#/usr}" 2>/dev/null || true; } |
    sed -nE 's/^([^:,]+)[^ ]*: (\/.*)/\1\tDYNAMIC_LINK\t\2/p'
}

{
  linked_packages
  # Compiled in: headers only.
  for package in libhwy-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libxxhash-dev libfmt-dev libboost-dev; do
    printf '%s\tSTATIC_LINK\t\n' "$package"
  done
} | sort -u -k1,1 | {
  packages='' relations=''
  while IFS=$'\t' read -r package kind file; do
    installed=$(dpkg-query -W -f='${Version}\t${source:Package}\t${Architecture}' "$package" 2>/dev/null) || continue
    IFS=$'\t' read -r number source architecture <<<"$installed"
    id=SPDXRef-Package-${package//[^A-Za-z0-9.-]/-}
    sum=''
    [ -z "$file" ] || sum=$(printf ', "checksums": [{"algorithm": "SHA256", "checksumValue": "%s"}]' "$(sha256sum "$file" | cut -d' ' -f1)")
    packages+=$(printf ',\n    {"SPDXID": "%s", "name": "%s", "versionInfo": "%s", "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:deb/debian/%s@%s?arch=%s&upstream=%s"}]%s}' \
      "$id" "$package" "$number" "$package" "${number//+/%2B}" "$architecture" "$source" "$sum")
    relations+=$(printf ',\n    {"spdxElementId": "SPDXRef-heed", "relationshipType": "%s", "relatedSpdxElement": "%s"}' "$kind" "$id")
  done
  cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "heed-$version",
  "documentNamespace": "https://spdx.org/spdxdocs/heed-$version-$checksum",
  "creationInfo": {"created": "$created", "creators": ["Tool: heed-tools-sbom.sh"]},
  "packages": [
    {"SPDXID": "SPDXRef-heed", "name": "heed", "versionInfo": "$version", "downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION", "checksums": [{"algorithm": "SHA256", "checksumValue": "$checksum"}]}$packages
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-heed"}$relations
  ]
}
END
}
