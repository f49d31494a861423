from labelspace.methods.hierarchicalxc.method import HierarchicalXC

__all__ = ["HierarchicalXC"]
