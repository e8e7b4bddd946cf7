"""Results: an `xarray.Dataset`, saved as a netCDF file or a folder of Zarr chunks."""
