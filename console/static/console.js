// What the pages do by themselves: times in the reader's zone as a hint, refreshes, keys, copying, light and dark.
(function () {
  "use strict";
  var root = document.documentElement;
  var format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  function localTimes(within) {
    within.querySelectorAll("time[datetime]").forEach(function (each) {
      var at = new Date(each.getAttribute("datetime"));
      if (!isNaN(at)) each.title = format.format(at) + ", your time"; // shown are times as they are typed: in UTC
    });
  }

  function refresh(each) {
    var seconds = Number(each.dataset.refresh);
    setInterval(function () {
      var chosen = document.getSelection();
      var selecting = chosen && !chosen.isCollapsed && each.contains(chosen.anchorNode);
      // Nor while the reader selects messages of a list, or has a field or a list of choices open in it.
      var busy = each.querySelector("tbody input:checked, details[open]") || each.querySelector("input:focus, select:focus");
      if (!document.hidden && !selecting && !busy) htmx.trigger(each, "refresh");
    }, seconds * 1000);
  }

  function darkNow() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  document.addEventListener("click", function (event) {
    var target = event.target.closest("button");
    if (!target) return;
    if (target.hasAttribute("data-theme-switch")) {
      root.dataset.theme = darkNow() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* for this page only */ }
    } else if (target.hasAttribute("data-keys-open")) {
      document.getElementById("keys").showModal();
    } else if (target.dataset.copy) {
      var text = document.getElementById(target.dataset.copy).textContent;
      navigator.clipboard.writeText(text).then(function () {
        target.textContent = "Copied";
        setTimeout(function () { target.textContent = "Copy"; }, 1500);
      });
    }
  });

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    var search = document.querySelector("[data-search]");
    var known = { "/": function () { if (search) { search.focus(); search.select(); } },
      "?": function () { document.getElementById("keys").showModal(); },
      g: function () { location.href = "/"; },
      n: function () { location.href = "/create"; },
      r: function () { location.reload(); } };
    if (known[event.key]) { event.preventDefault(); known[event.key](); }
  });

  // What is done in pieces goes on by itself, until the reader stops it.
  var next = document.querySelector("form[data-go-on]");
  if (next) setTimeout(function () { next.requestSubmit(); }, 400);

  // One box for all of a list.
  document.addEventListener("change", function (event) {
    if (!event.target.hasAttribute("data-all")) return;
    event.target.closest("form").querySelectorAll("tbody input[type=checkbox]").forEach(function (each) {
      each.checked = event.target.checked;
    });
  });

  // Whoever writes into a field does not mean NULL.
  document.addEventListener("input", function (event) {
    var box = event.target.dataset.null && event.target.form.elements[event.target.dataset.null];
    if (box) box.checked = false;
  });

  document.addEventListener("htmx:afterSwap", function (event) { localTimes(event.target); });
  // An answer that says what is wrong is shown as well.
  document.addEventListener("htmx:beforeSwap", function (event) {
    if (event.detail.xhr.status >= 400 && event.detail.xhr.status !== 401) event.detail.shouldSwap = true;
  });
  localTimes(document);
  // What is wrong with a form comes into view.
  var refused = document.getElementById("refused");
  if (refused) refused.focus();
  document.querySelectorAll("[data-refresh]").forEach(refresh);
})();
