"""Writes the graphs of all-MiniLM-L6-v2, its forward pass without the weights: in float32, and with 8-bit weights.

Run: python -m tests.bench.minilm_graph   (needs the development dependency `onnx`)

Every weight is an external initializer with the name and layout that it has in model.safetensors, so minilm.py passes
the file's tensors on unchanged. The graph takes one text: without padding it needs no attention mask, and a vector
can't depend on what else is being embedded.

The 8-bit graphs multiply in integers: minilm.py quantizes the weights, the graph each text's activations. There are two
for the same vectors, since CPUs multiply one pair of types exactly and fast, and the other exactly or fast.
docs/adr/0016-vectors.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from shared.embedder import minilm

_FOLDER = Path(minilm.__file__).parent
TARGETS: dict[int | None, Path] = {  # the type of the weights -> the file
    None: _FOLDER / "minilm_graph.onnx",
    TensorProto.INT8: _FOLDER / "minilm_graph_int8.onnx",
    TensorProto.UINT8: _FOLDER / "minilm_graph_uint8.onnx",
}

# config.json of the model
_HIDDEN, _INNER, _HEADS, _LAYERS = 384, 1536, 12, 6
_VOCABULARY, _POSITIONS, _TYPES = 30_522, 512, 2
_EPSILON = 1e-12
_OPSET, _IR = 20, 10  # opset 20 is the first with Gelu
_CONTRIBUTED = "com.microsoft"  # onnxruntime's own operators


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name: str, values: list[int] | float) -> str:
        if isinstance(values, list):
            self.initializers.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        else:
            self.initializers.append(helper.make_tensor(name, TensorProto.FLOAT, [], [values]))
        return name

    def weight(self, name: str, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="model.safetensors")
        self.initializers.append(tensor)
        return name

    def linear(self, x: str, name: str, wide: int, narrow: int) -> str:
        weight, bias = self.weight(f"{name}.weight", wide, narrow), self.weight(f"{name}.bias", wide)
        return self.op("Gemm", x, weight, bias, transB=1)

    def layer_norm(self, x: str, name: str) -> str:
        gain, bias = self.weight(f"{name}.weight", _HIDDEN), self.weight(f"{name}.bias", _HIDDEN)
        return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=_EPSILON)

    def embeddings(self, ids: str) -> str:
        words = self.op("Gather", self.weight("embeddings.word_embeddings.weight", _VOCABULARY, _HIDDEN), ids)
        positions = self.weight("embeddings.position_embeddings.weight", _POSITIONS, _HIDDEN)
        types = self.weight("embeddings.token_type_embeddings.weight", _TYPES, _HIDDEN)
        first = self.constant("first", [0])
        here = self.op("Slice", positions, first, self.op("Shape", ids))
        x = self.op("Add", self.op("Add", words, self.op("Gather", types, first)), here)
        self.constant("split", [0, _HEADS, _HIDDEN // _HEADS])
        self.constant("join", [0, _HIDDEN])
        self.constant("scale", (_HIDDEN // _HEADS) ** -0.5)
        return self.layer_norm(x, "embeddings.LayerNorm")

    def heads(self, x: str, name: str, order: list[int]) -> str:
        projected = self.op("Reshape", self.linear(x, name, _HIDDEN, _HIDDEN), "split")
        return self.op("Transpose", projected, perm=order)

    def layer(self, x: str, name: str) -> str:
        query = self.heads(x, f"{name}.attention.self.query", [1, 0, 2])
        key = self.heads(x, f"{name}.attention.self.key", [1, 2, 0])
        value = self.heads(x, f"{name}.attention.self.value", [1, 0, 2])
        weights = self.op("Softmax", self.op("Mul", self.op("MatMul", query, key), "scale"), axis=-1)
        seen = self.op("Transpose", self.op("MatMul", weights, value), perm=[1, 0, 2])
        seen = self.linear(self.op("Reshape", seen, "join"), f"{name}.attention.output.dense", _HIDDEN, _HIDDEN)
        x = self.layer_norm(self.op("Add", seen, x), f"{name}.attention.output.LayerNorm")
        inner = self.op("Gelu", self.linear(x, f"{name}.intermediate.dense", _INNER, _HIDDEN))
        outer = self.linear(inner, f"{name}.output.dense", _HIDDEN, _INNER)
        return self.layer_norm(self.op("Add", outer, x), f"{name}.output.LayerNorm")


class _QuantizedGraph(_Graph):
    """The same with 8-bit weights, a scale per output, and activations quantized to 8 bits text by text."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self._kind = kind
        # A weight of 0 is 0 as int8 and 128 as uint8.
        self.initializers.append(helper.make_tensor("zero", kind, [], [128 if kind == TensorProto.UINT8 else 0]))

    def linear(self, x: str, name: str, wide: int, narrow: int) -> str:
        quantized = self.weight(f"{name}.weight.quantized", narrow, wide, kind=self._kind)
        scales, bias = self.weight(f"{name}.weight.scales", wide), self.weight(f"{name}.bias", wide)
        return self.op("DynamicQuantizeMatMul", x, quantized, scales, "zero", bias, domain=_CONTRIBUTED)


def build(kind: int | None = None) -> onnx.ModelProto:
    """Return the model: token ids (int64, one text) in, the mean of its last layer (float32, not normalised) out.

    `kind` is the type of the layers' weights, INT8 or UINT8; None is float32.
    """
    graph = _Graph() if kind is None else _QuantizedGraph(kind)
    x = graph.embeddings("ids")
    for number in range(_LAYERS):
        x = graph.layer(x, f"encoder.layer.{number}")
    graph.nodes.append(helper.make_node("ReduceMean", [x, "first"], ["mean"], name="mean", keepdims=0))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["tokens"])],
            [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [_HIDDEN])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)]
        + ([] if kind is None else [helper.make_opsetid(_CONTRIBUTED, 1)]),
        ir_version=_IR,
    )
    model.ClearField("producer_name")
    return model


def weights(model: onnx.ModelProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every external weight that the model expects."""
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor.name, tuple(tensor.dims)


if __name__ == "__main__":
    for weights_kind, target in TARGETS.items():
        target.write_bytes(build(weights_kind).SerializeToString(deterministic=True))
