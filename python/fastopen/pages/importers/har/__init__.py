"""Import HARs (http://www.softwareishard.com/blog/har-12-spec/) in all variants that programs write."""
