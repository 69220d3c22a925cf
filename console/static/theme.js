// Before the page is drawn: the reader's choice of light or dark, so that nothing flashes.
(function () {
  "use strict";
  try {
    var chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (error) { /* a browser that keeps nothing follows its system */ }
})();
