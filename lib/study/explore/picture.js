// An image made in the kernel. Pressing and dragging on it is told to the kernel; while one picture is being drawn,
// only the latest of the places that the pointer went to is kept.
export default {
  render({ model, el }) {
    const image = document.createElement("img");
    image.className = "pdevae-picture";
    image.draggable = false;
    image.alt = model.get("alt");
    image.style.cssText = "max-width: 100%; cursor: crosshair; touch-action: none; user-select: none;";
    let drawing = false;
    let latest = null;
    const waiting = []; // releases, which must not be lost
    let count = 0;

    const tell = (what) => {
      drawing = true;
      count += 1;
      model.set("pointer", [...what, count]);
      model.save_changes();
    };
    const show = () => {
      const old = image.src;
      image.src = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
      image.dataset.shown = String(Number(image.dataset.shown ?? 0) + 1);
      if (old) URL.revokeObjectURL(old);
    };
    const drawn = () => {
      drawing = false;
      const what = latest ?? waiting.shift();
      latest = null;
      if (what) tell(what);
    };
    const place = (kind, event) => {
      const box = image.getBoundingClientRect();
      return [kind, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    image.addEventListener("pointerdown", (event) => {
      image.setPointerCapture(event.pointerId);
      tell(place("press", event));
    });
    image.addEventListener("pointermove", (event) => {
      if (!event.buttons) return;
      if (drawing) latest = place("drag", event);
      else tell(place("drag", event));
    });
    image.addEventListener("pointerup", (event) => {
      const what = place("release", event);
      if (drawing) waiting.push(what);
      else tell(what);
    });
    model.on("change:png", show);
    model.on("change:handled", drawn);
    show();
    el.appendChild(image);
  },
};
