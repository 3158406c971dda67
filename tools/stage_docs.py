#!/usr/bin/env python3
"""Copies the documents of one language into a folder that mkdocs can build.

    tools/stage_docs.py en|ko FOLDER      writes FOLDER and FOLDER.yml, the configuration for mkdocs

A page of the site is a Markdown file of docs/ or of the root. NAME.ko.md is the Korean twin of NAME.md;
pages that exist in English only are part of both sites. Links are rewritten: to a page of the same
language, to the same page of the other language, or, where the target is a file that the site does not
contain (sources), to plain text.
"""
import os
import re
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FROM_ROOT = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "README.md", "README.ko.md", "tests/golden/README.md"]
RENAMED = {"README": "readme", "tests/golden/README": "golden"}  # mkdocs takes README.md for an index
KOREAN = {"Lessons": "수업", "Guides": "안내", "Formats": "파일 형식", "Decisions": "결정", "Contributing": "기여하기"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def sources():
    found = list(FROM_ROOT)
    for folder, _, files in os.walk(os.path.join(ROOT, "docs")):
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files if name.endswith(".md")]
    return found


def page_of(path):
    """The page that a Markdown file is, as (language or None, name without .md)."""
    name = path[len("docs/"):] if path.startswith("docs/") else path
    name = name[:-len(".md")]
    language = None
    if name.endswith(".ko"):
        language, name = "ko", name[:-len(".ko")]
    if name.startswith(("tutorial/en/", "tutorial/ko/")):
        language, name = name[len("tutorial/"):][:2], "lessons/" + name[len("tutorial/en/"):]
    return language, RENAMED.get(name, name)


def pages_of(language):
    """Source file by page: the page in this language, else the one in English."""
    pages = {}
    for path in sources():
        of, name = page_of(path)
        if of == language or (of != "ko" and name not in pages):
            pages[name] = path
    return pages


class Stage:
    def __init__(self, language, folder):
        self.language, self.folder = language, folder
        self.pages = pages_of(language)
        self.known = set(sources())

    def relative(self, page, target):
        return os.path.relpath(target, os.path.dirname(page) or ".")

    def link(self, page, source, match):
        picture, text, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if os.path.isdir(os.path.join(ROOT, full)) and full + "/index.md" in self.known:
            full += "/index.md"
        if full in self.known:
            of, name = page_of(full)
            anchor = "#" + anchor if anchor else ""
            # A link to the twin of the page itself, or from English to Korean, changes the language.
            if self.pages[name] == full or (name != page and self.language == "ko"):
                return f"{picture}[{text}]({self.relative(page, name)}.md{anchor})"
            # Raw HTML: the other language is another site, which mkdocs cannot look into.
            up = "../" if self.language == "ko" else ""
            there = "ko/" if self.language == "en" else ""
            depth = "../" * page.count("/")
            return f'<a href="{depth}{up}{there}{name}.html{anchor}">{text}</a>'
        if picture or full.startswith(("docs/pictures/", "docs/tutorial/pictures/")):
            name = os.path.relpath(full, "docs")
            to = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.join(ROOT, full), to)
            return f"{picture}[{text}]({self.relative(page, name)})"
        if not os.path.exists(os.path.join(ROOT, full)):
            sys.exit(f"{source}: the link {target} leads nowhere")
        return text if text.startswith("`") else f"`{text}`"

    def write(self):
        for page, source in self.pages.items():
            with open(os.path.join(ROOT, source), encoding="utf-8") as file:
                parts = re.split(r"(^```.*?^```$)", file.read(), flags=re.M | re.S)
            for index in range(0, len(parts), 2):  # code blocks stay as they are
                parts[index] = LINK.sub(lambda match: self.link(page, source, match), parts[index])
            if page == "reference" and self.language == "ko":
                parts = [part.replace('href="api/', 'href="../api/') for part in parts]
            to = os.path.join(self.folder, page + ".md")
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, "w", encoding="utf-8") as file:
                file.write("".join(parts))


def theme_language(language):
    """Debian 12's mkdocs-material calls Korean kr, later versions ko."""
    old = "/usr/share/mkdocs/themes/material/partials/languages/kr.html"
    return "kr" if language == "ko" and os.path.exists(old) else language


def configure(language, folder, pages):
    """FOLDER.yml from docs/site/mkdocs.yml: folders, language and the Korean names of sections."""
    with open(os.path.join(ROOT, "docs/site/mkdocs.yml"), encoding="utf-8") as file:
        text = file.read()
    missing = [page for page in pages if f"- {page}.md\n" not in text]
    if missing:
        sys.exit(f"docs/site/mkdocs.yml: nav lacks {', '.join(missing)}")
    values = {"docs_dir": os.path.abspath(folder), "site_dir": os.path.join(ROOT, "build/site"),
              "language": theme_language(language)}
    if language == "ko":
        values["site_dir"] += "/ko"
        for name, korean in KOREAN.items():
            text = text.replace(f"- {name}:\n", f"- {korean}:\n")
        text = text.replace("link: index.html", "link: ../index.html").replace("link: ko/index.html", "link: index.html")
    for key, value in values.items():
        text = re.sub(rf"^( *){key}: .*$", rf"\1{key}: {value}", text, flags=re.M)
    with open(folder + ".yml", "w", encoding="utf-8") as file:
        file.write(text)


def main():
    language, folder = sys.argv[1:3]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    stage = Stage(language, folder)
    stage.write()
    configure(language, folder, stage.pages)


main()
