//! Requests of the HTTP interface: heads, bodies, paths, parameters and headers.

use crate::Target;

pub(crate) const TARGET: Target =
    Target { name: "http-requests", run: quoit_server::http::fuzz_request, seeds };

fn seeds() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 10] = [
        b"GET /buckets/b/keys/k?r=quorum&pr=1&timeout=100 HTTP/1.1\r\nHost: h\r\n\
          Accept: multipart/mixed;q=0.5, */*;q=0\r\nIf-None-Match: \"a\", W/\"b\"\r\n\
          If-Modified-Since: Fri, 20 Nov 2026 14:00:00 GMT\r\n\r\n",
        b"PUT /types/t/buckets/b%20%ff/keys/k+1?returnbody=true&w=all HTTP/1.1\r\nHost: h\r\n\
          Content-Type: text/plain; charset=\"utf-8\"\r\nX-Riak-Vclock: a85hYGBgzGDKBVIcR4M2cgcz\r\n\
          Link: </buckets/b/keys/a>; riaktag=\"friend\", </b/c>; rel=\"up\"\r\n\
          X-Riak-Meta-Colour: blue\r\nX-Riak-Index-Age_int: 1, -2\r\nContent-Length: 5\r\n\r\nvalue",
        b"POST /riak/b HTTP/1.0\r\nContent-Type: application/json\r\nReferer: http://h/x\r\n\
          Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\nTrailer: 1\r\n\r\n",
        b"GET /buckets/b/keys/a/_,friend,1/b,_,_ HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /types/t/buckets?buckets=stream HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        b"PUT /buckets/b/props HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
          Expect: 100-continue\r\nContent-Length: 23\r\n\r\n{\"props\":{\"n_val\":3}}   ",
        b"DELETE /buckets/b/keys/k?rw=one HTTP/1.1\r\nHost: h\r\n\r\nHEAD /ping HTTP/1.1\r\n\r\n",
        b"GET /types/t/buckets/b/index/Age_int/-7/99?return_terms=true&max_results=10&timeout=0&\
          continuation=AQAA&stream=true HTTP/1.1\r\nHost: h\r\n\r\n\
          GET /buckets/b/index/$key/a/z?term_regex=%5Ea(b%7Cc)%2B$ HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /buckets/b/keys?keys=true&prefix=a%ff&start=b&end=c&max_results=1&continuation=AQ \
          HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /admin/v1/bucket-types/t HTTP/1.1\r\nHost: [::1]:8098\r\nOrigin: http://x\r\n\r\n",
    ];
    requests.map(<[u8]>::to_vec).into()
}
