module podgroup-extender.io/plugin/core

go 1.26.0
