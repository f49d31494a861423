// What Python sent: a safetensors file, gzipped; embedded in a page as base64.
"use strict";

const VIEWS = { F32: Float32Array, I32: Int32Array, U32: Uint32Array, U16: Uint16Array, U8: Uint8Array };

async function unpack(base64) {
  const text = atob(base64);
  return unpackBytes(Uint8Array.from({ length: text.length }, (_, i) => text.charCodeAt(i)));
}

async function unpackBytes(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return readArrays(await new Response(stream).arrayBuffer());
}

/** Arrays by name, and the texts beside them. */
function readArrays(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const { __metadata__: texts, ...arrays } = header, found = { texts };
  for (const [name, { dtype, data_offsets: [start, stop] }] of Object.entries(arrays)) {
    const View = VIEWS[dtype];
    found[name] = new View(buffer, 8 + length + start, (stop - start) / View.BYTES_PER_ELEMENT);
  }
  for (const name of ["names", "ids"]) {
    if (found[name]) found[name] = JSON.parse(new TextDecoder().decode(found[name]));
  }
  return found;
}
