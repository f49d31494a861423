from labelspace.methods.neuralxc.method import NeuralXC

__all__ = ["NeuralXC"]
