"""What MkDocs is told beyond mkdocs.yml: pages made from the catalog's files, from notebooks and from the repository's
own Markdown files. Making them runs their examples, so a page cannot show what the program does not do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from method_pages import KINDS, method_page
from mkdocs.structure.files import File, Files
from notebook_pages import notebook_page
from redirects import write_stubs
from shown_blocks import show_blocks

from troth.core import catalog

torch.set_num_threads(1)  # the examples are small: several threads would only wait for each other

ROOT = Path(__file__).resolve().parents[3]
OWN = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}


def on_config(config: Any) -> Any:
    """Every method's page into the navigation, under its list."""
    for entry in config.nav:
        if "Methods" in entry:
            entry["Methods"] = [_with_methods(item) for item in entry["Methods"]]
    return config


def _with_methods(item: dict[str, Any]) -> dict[str, Any]:
    """
    >>> _with_methods({"Which explainer?": "guide/which.md"})
    {'Which explainer?': 'guide/which.md'}
    >>> _with_methods({"Maskings": "methods/maskings.md"})["Maskings"][:2]
    ['methods/maskings.md', {'attention': 'methods/maskings/attention.md'}]
    """
    ((title, page),) = item.items()
    kind = title.lower()
    if kind not in KINDS:
        return item
    return {title: [page, *({name: f"methods/{kind}/{name}.md"} for name in catalog.names(kind))]}


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made, and takes out the notebooks they are made from."""
    for kind in KINDS:
        for name in catalog.names(kind):
            files.append(File.generated(config, f"methods/{kind}/{name}.md", content=method_page(kind, name)))
    for name, target in OWN.items():
        files.append(File.generated(config, target, content=from_root((ROOT / name).read_text(encoding="utf-8"))))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = notebook_page(Path(str(file.abs_src_path)))
        files.remove(file)
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=page))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they work on the site: to the repository's own files, and from the lists to the pages of methods."""
    uri = page.file.src_uri
    for name, target in OWN.items():
        markdown = markdown.replace(f"../{name}", target)
    markdown = re.sub(r"\]\(([\w/.]*tutorials/\w+|\w+)\.ipynb\)", r"](\1.md)", markdown)
    if uri in (f"methods/{kind}.md" for kind in KINDS):
        kind = page.file.name
        markdown = re.sub(r"^## (\w+)$", rf"## [\1]({kind}/\1.md)", markdown, flags=re.MULTILINE)
        markdown = re.sub(r"^\| `(\w+)` \|", rf"| [\1]({kind}/\1.md) |", markdown, flags=re.MULTILINE)
    return show_blocks(markdown)


def on_post_build(config: Any) -> None:
    """Old addresses lead to the new ones."""
    write_stubs(Path(config.site_dir))


def from_root(markdown: str) -> str:
    """A page of the repository's root as a page of docs/.

    >>> from_root("[study](docs/reference/new_study.md), [changes](CHANGELOG.md), [web](https://a.b/docs/c)")
    '[study](reference/new_study.md), [changes](changelog.md), [web](https://a.b/docs/c)'
    """
    for name, target in OWN.items():
        markdown = markdown.replace(f"]({name}", f"]({target}")
    return markdown.replace("](docs/", "](")
