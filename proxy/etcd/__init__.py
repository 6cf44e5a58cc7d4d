"""etcd as zketcd uses it: values, a client over gRPC, and a server for single machines. Nothing knows znodes.

In which order to read (what is pure does no I/O):

interface      the methods that the rest of the proxy calls; the fake of the tests has them too (pure)
model          transactions, ranges, watch messages and errors, as plain values (pure)
client         these methods over gRPC
rpc            which member gets a call; what is asked again; errors and measurements
asking         requests that need a task
repeating      requests that are sent again until their outcome is known
failures       what an error message means: refused for certain, or outcome unknown (pure)
wire, rpc_pb2  the values as bytes of etcd's protocol, and back (wire is pure, rpc_pb2 generated)
transport      what a channel is (pure)
http2          our channel
grpc_channel   that of grpcio, for gateways that ours does not work with
leases         a stream that keeps leases alive; the lease of a command
authenticator  the token of etcd's user
access, tls, unix_socket  how a process reaches etcd
status_poller  etcd's own status, for metrics
metrics        what etcd's API does not tell: its metrics
versions       which versions may be used (pure)
embedded       a single etcd that zketcd starts
bound          starts it, so that it ends with us
"""
