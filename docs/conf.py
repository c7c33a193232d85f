"""Settings of the documentation site: ``python -m sphinx -W -b html docs build/docs``; needs the extra ``docs``.

Building reads nothing from the network: there is no intersphinx, and notebooks are shown with the outputs they were
saved with (``docs/make_notebooks.py`` runs them).
"""

import newton_sap

project = "newton_sap"
author = "The newton_sap developers"
copyright = author
release = version = newton_sap.__version__

extensions = [
    "myst_nb",  # brings myst_parser with it
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "off"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = f"newton_sap {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_sidebars = {"quickstart": []}  # a page with no others below it
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
