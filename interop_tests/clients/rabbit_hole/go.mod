module interop

go 1.21

require github.com/michaelklishin/rabbit-hole/v2 v2.16.0
