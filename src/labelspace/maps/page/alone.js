// The map as a page of its own, with its data inside.
"use strict";

async function begin() {
  const map = new LabelMap(await unpack(element("data").textContent));
  connect(map);
  present(map);
  listenToSearch(() => map.data.names, (label) => map.choose(label));
}

start(begin);
